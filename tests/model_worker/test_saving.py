"""Saving to a full disk: a run is not called finished without its last checkpoint."""

from types import SimpleNamespace

import pytest

from model_worker import saving as saving_module
from model_worker.saving import Saving
from model_worker.training.state import Position
from shared.errors import CheckpointError, TandemError


class FailingSaving(Saving):
    """Fails to write `num_failures` times."""

    def __init__(self, num_failures, stop_on_error=False):
        self.num_failures, self.num_calls, self.said = num_failures, 0, []
        self.flushed_durably = False
        self.logs_on_disk = []  # at each call, whether the logs were

        def flush(durable=False):
            self.flushed_durably = durable

        super().__init__(
            store=None,
            train_step=SimpleNamespace(num_applied=SimpleNamespace(numpy=lambda: 6)),
            position=Position(step=6),
            exclusions=None,
            identity={},
            progress=SimpleNamespace(flush=flush),
            reporter=SimpleNamespace(say=self.said.append),
            stop_on_error=stop_on_error,
        )

    def _write(self, position):
        self.num_calls += 1
        self.logs_on_disk.append(self.flushed_durably)
        self.flushed_durably = False
        if self.num_calls <= self.num_failures:
            raise CheckpointError("No space left on device")


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch):
    monkeypatch.setattr(saving_module, "_LAST_SAVE_AGAIN_AFTER_S", (0.0, 0.0))


def test_the_last_save_is_tried_again():
    saving = FailingSaving(2)
    saving.save_the_last(Position(step=7))
    assert saving.num_calls == 3 and saving.saved_step == 7
    assert saving.logs_on_disk == [True] * 3
    said = ["⚠️  The checkpoint was not saved: No space left on device"]  # once is enough
    assert saving.said == said


def test_without_its_last_checkpoint_a_run_has_not_finished():
    with pytest.raises(TandemError, match="of step 7, could not be saved. No space left"):
        FailingSaving(3).save_the_last(Position(step=7))


def test_a_save_that_fails_on_the_way_costs_nothing_unless_the_run_is_to_stop_then():
    saving = FailingSaving(1)
    saving.save(Position(step=7))
    assert saving.saved_step == 6
    saving.save(Position(step=8))
    assert saving.saved_step == 8
    with pytest.raises(TandemError, match="could not be saved: No space left"):
        FailingSaving(1, stop_on_error=True).save(Position(step=7))
