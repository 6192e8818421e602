"""The end of a run whose disk is full: it is not called finished without its last checkpoint."""

from types import SimpleNamespace

import pytest

from model_worker import training_loop
from model_worker.training.state import Position
from model_worker.training_loop import TrainingLoop
from shared.config.settings import Config
from shared.errors import CheckpointError, TandemError
from shared.worker.contract import EXIT_FINISHED, EXIT_INTERRUPTED


class FailingSave:
    """Fails `num_failures` times."""

    def __init__(self, num_failures):
        self.num_failures, self.num_calls = num_failures, 0
        self.flushed_durably = False
        self.logs_on_disk = []  # at each call, whether the logs were

    def __call__(self, position):
        self.num_calls += 1
        self.logs_on_disk.append(self.flushed_durably)
        if self.num_calls <= self.num_failures:
            raise CheckpointError("No space left on device")


def make_loop(save, said):
    def flush(durable=False):
        save.flushed_durably = durable

    parts = SimpleNamespace(
        config=Config(), save=save,
        progress=SimpleNamespace(flush=flush, say_verdict=lambda: None),
        plan=SimpleNamespace(num_validation_batches=0),
        reporter=SimpleNamespace(say=said.append, phase=lambda name, deadline_s: None),
        validation=SimpleNamespace(abandon=lambda: None), started_s=0.0,
        train_step=SimpleNamespace(nonfinite_in_row=SimpleNamespace(numpy=lambda: 0)),
    )  # fmt: skip
    position = Position(step=6)
    loop = TrainingLoop(parts, position)
    position.step = 7
    return loop


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch):
    monkeypatch.setattr(training_loop, "_LAST_SAVE_AGAIN_AFTER_S", (0.0, 0.0))


def test_the_last_save_is_tried_again():
    said, save = [], FailingSave(2)
    assert make_loop(save, said)._end(EXIT_INTERRUPTED) == EXIT_INTERRUPTED
    assert save.num_calls == 3
    assert save.logs_on_disk == [True] * 3
    assert said == ["⚠️  The checkpoint was not saved: No space left on device"]  # once is enough


def test_without_its_last_checkpoint_a_run_has_not_finished():
    with pytest.raises(TandemError, match="of step 7, could not be saved. No space left"):
        make_loop(FailingSave(3), [])._end(EXIT_FINISHED)
