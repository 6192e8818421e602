"""The measure of oscillation."""

import pytest

from shared.diagnosis.steadiness import steadiness


@pytest.mark.parametrize(
    ("shares", "ratio"),
    [
        ([0.98] * 40, "1.00"),
        ([0.9, 0.05] * 20, "0.11"),  # by turns: half of the seconds idle
        ([0.9] * 99 + [0.1], "1.00"),  # one bad second of a hundred is no oscillation
        ([0.0] * 40, "–"),
    ],
)
def test_taking_turns_is_seen_and_a_single_slip_is_not(shares, ratio):
    assert steadiness(shares).ratio == ratio


def test_a_few_seconds_say_nothing():
    assert steadiness([0.9] * 4) is None
