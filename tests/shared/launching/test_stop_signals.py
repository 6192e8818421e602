"""Which signals stop a run, and which one may have been ruled out by whoever started it."""

import signal

import pytest

from shared.launching.stop_signals import STOP_SIGNALS, handle_stops, interrupt


@pytest.fixture
def restored():
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_every_stop_signal_interrupts(restored):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    before = handle_stops(interrupt)
    assert set(before) == set(STOP_SIGNALS)
    for number in STOP_SIGNALS:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_a_hang_up_that_nohup_ignores_stays_ignored(restored):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert signal.SIGHUP not in handle_stops(interrupt)
    signal.raise_signal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
