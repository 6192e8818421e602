"""How a run ended, in lines that are not too wide for a terminal."""

import pytest

from shared.console.run_words import ending_lines
from shared.run.event_log import Ended
from shared.task.registry import Task

RUN = "runs/20261119-214500"  # as it is called by default


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (0, "finished"),
        (130, "interrupted; the checkpoint is saved"),
        (130, "interrupted while it was starting; there was nothing to save"),
    ],
)
def test_no_line_of_a_usual_end_is_wider_than_a_hundred_columns(code, cause):
    for task in ("speech", "vocoder"):
        words = ending_lines(Ended(0.0, code, cause), RUN, Task.of(task).next_step(RUN))
        assert max(map(len, words.splitlines())) <= 100 and RUN in words


def test_who_interrupted_a_run_is_told_how_it_goes_on():
    words = ending_lines(Ended(0.0, 130, "interrupted; the checkpoint is saved"), RUN)
    assert words.splitlines() == [
        "⏹  Interrupted; the checkpoint is saved",
        f"   The same command with --run-dir {RUN} goes on from there",
    ]
