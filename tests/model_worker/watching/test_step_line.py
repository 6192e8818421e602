"""The line of a logged step is short, and says what has changed."""

import pytest

from model_worker.watching.step_line import step_line
from shared.diagnosis.verdict import UNKNOWN, Verdict
from shared.diagnosis.wait_attribution import CAUSES
from shared.worker.reports import Outlook

NOTHING = Verdict("", 0.01, 0.01, "")


def outlook(total_steps=1000, by_the_clock=False, left_s=6100.0, steps_per_s=8.25):
    return Outlook(0.4, 60.0, total_steps, by_the_clock, left_s, steps_per_s, "", False)


def test_it_says_how_far_the_run_is_and_what_it_waits_for():
    verdict = Verdict("decoding", 0.35, 0.32, "--num-workers 6")
    line = step_line({"step": 120, "loss": 1.38}, outlook(), verdict, "↘")
    assert line == (
        "   step 120/1000 · loss 1.380 ↘ · 8.25 steps/s · 1:41:40 left · waits 32% for decoding"
    )


def test_what_is_not_known_is_left_out():
    line = step_line({"step": 10, "loss": 1.0}, outlook(steps_per_s=None), NOTHING, "")
    assert line == "   step 10/1000 · loss 1.000 · 1:41:40 left"
    unknown = Verdict(UNKNOWN, 0.2, 0.2, "")
    assert step_line({"step": 1, "loss": 1.0}, outlook(), unknown, "").endswith("left · waits 20%")


@pytest.mark.parametrize("cause", [*CAUSES, UNKNOWN, ""])
def test_it_is_never_wider_than_a_hundred_columns(cause):
    long = outlook(total_steps=900_000, by_the_clock=True, left_s=359_999, steps_per_s=8.25)
    verdict = Verdict(cause, 0.99, 0.99, "--num-workers 64")
    line = step_line({"step": 120_000, "loss": 12.345}, long, verdict, "↘")
    assert len(line) <= 100
    assert "--num-workers" not in line  # the end of the run says it once
