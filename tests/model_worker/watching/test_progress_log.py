"""What a run says of itself at a validation and at its end."""

import json
from types import SimpleNamespace

import pytest

from model_worker.training.state import Position
from model_worker.watching.progress_log import ProgressLog
from shared.config.settings import Config
from shared.run.directory import RunDirectory
from shared.worker.reports import Reporter

TASK = SimpleNamespace(judged_in_words="loss", unit="examples")


@pytest.fixture
def run(tmp_path):
    """A run that went on for 400 steps and was interrupted: it gained until step 100."""
    run = RunDirectory(tmp_path)
    lines: list[dict] = []
    for step in range(10, 401, 10):
        lines.append({"step": step, "loss": 2.0 - step / 1000, "step_ms": 5.0})
        if step % 100 == 0 and step < 400:
            lines.append({"step": step, "val_loss": 1.0 + step / 1000, "judged_by": "val_loss"})
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def progress_of(run, said):
    reporter = Reporter(None)
    reporter.listener = lambda report: said.append(getattr(report, "text", ""))
    return ProgressLog(
        run, None, None, None, None, reporter, Config(), TASK, None, lambda record: None
    )


def validate(progress, step, val_loss):
    position = Position(step=step, validations_since_best=3)
    progress.log_validation(position, {"val_loss": val_loss}, "val_loss")


def test_overfitting_is_said_when_it_is_found_and_again_at_the_end(run):
    said = []
    progress = progress_of(run, said)
    validate(progress, 400, 1.4)
    wanted = [
        "📚 Overfitting: no better validation since step 100 (3 in a row), while the training loss falls",
        "   The best checkpoint is kept. What helps: more data, --max-steps 100, --early-stopping 3",
    ]
    assert [line for line in said if line][1:] == wanted
    assert max(map(len, wanted)) <= 100
    said.clear()
    validate(progress, 500, 1.5)
    assert not any("Overfitting" in line for line in said)  # once is enough, until the end
    said.clear()
    progress.say_verdict()
    assert said[0].startswith("📚 Overfitting: no better validation since step 100 (4 in a row)")


def test_a_better_validation_says_nothing_of_the_kind(run):
    said = []
    progress = progress_of(run, said)
    validate(progress, 400, 0.9)
    progress.say_verdict()
    assert not any("verfitting" in line for line in said)
