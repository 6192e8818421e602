"""When a process hangs: each way by itself, and where its limit is."""

import dataclasses

import pytest

from shared.launching.hang import hang_of, is_unkillable
from shared.launching.watched_worker import WatchedWorker
from shared.worker.contract import SERVING, TRAINING, WAITING

MODEL = WatchedWorker("model", "running", phase=TRAINING, allowed_s=60.0, at_work=True)
DATA = WatchedWorker("data", "running", phase=SERVING, allowed_s=8.0, at_work=True)


def test_silence_is_a_hang_once_the_phase_s_own_deadline_has_passed():
    assert hang_of(DATA, [MODEL, DATA], 8.0) == ""
    assert hang_of(DATA, [MODEL, DATA], 9.0) == "no progress for 9 s while serving"
    assert hang_of(MODEL, [MODEL, DATA], 9.0) == ""


def test_a_phase_without_a_deadline_may_take_for_ever():
    assert hang_of(dataclasses.replace(DATA, allowed_s=0.0), [DATA], 1e6) == ""


def test_a_process_that_a_signal_stopped_is_given_less_time_than_its_phase():
    stopped = dataclasses.replace(MODEL, stopped_since_s=2.0)
    assert hang_of(stopped, [stopped], 10.0) == ""
    assert hang_of(stopped, [stopped], 11.0) == "stopped by a signal for 9 s while training"


@pytest.mark.parametrize(
    ("change", "hangs"),
    [
        ({}, True),
        ({"moved_s": 50.0}, False),
        ({"at_work": False}, False),
        ({"state": "backing-off"}, False),
    ],
    ids=["all wait", "a batch is being made", "one is starting", "one is to be started"],
)
def test_a_run_in_which_all_wait_for_each_other_hangs(change, hangs):
    model = dataclasses.replace(MODEL, phase=WAITING, heard_s=100.0)
    data = dataclasses.replace(DATA, heard_s=100.0, **change)
    said = "waiting for 60 s for data that nobody is making" if hangs else ""
    assert hang_of(model, [model, data], 100.0) == said
    assert hang_of(data, [model, data], 100.0) == ""


def test_what_sigkill_does_not_end_is_given_up_after_a_while():
    assert not is_unkillable(MODEL, 1e6)
    killed = dataclasses.replace(MODEL, killed_s=1.0)
    assert not is_unkillable(killed, 6.0) and is_unkillable(killed, 6.1)
