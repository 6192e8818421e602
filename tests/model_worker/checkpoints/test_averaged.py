"""Which weights a run speaks with."""

import numpy as np
import pytest

from model_worker.checkpoints.averaged import averaged_checkpoint
from model_worker.checkpoints.store import CheckpointStore
from shared.errors import InputError
from shared.run.directory import RunDirectory


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path)


def save(run: RunDirectory, step: int, validations_since_best: int, best: bool = False) -> None:
    store = CheckpointStore(run.checkpoints)
    groups = {"ema": {"w": np.full(2, step, np.float32)}, "weights": {"w": np.zeros(2, np.float32)}}
    state = {"position": {"step": step, "validations_since_best": validations_since_best}}
    store.save(step, groups, state)
    if best:
        store.mark_best(step, 1.0 / step)


def chosen(run: RunDirectory) -> int:
    checkpoint = averaged_checkpoint(run, pytest.fail, "to speak with")
    assert list(checkpoint.groups) == ["ema"]
    return checkpoint.step


def test_without_a_checkpoint_it_says_how_to_get_one(run):
    with pytest.raises(InputError, match="has no checkpoint to speak with. Train it first"):
        chosen(run)


def test_the_best_speaks_when_a_later_validation_was_worse(run):
    save(run, 10, 0, best=True)
    save(run, 20, 1)
    assert chosen(run) == 10


def test_the_latest_speaks_when_nothing_says_that_it_is_worse(run):
    save(run, 10, 0, best=True)
    save(run, 15, 0)
    assert chosen(run) == 15


def test_the_latest_speaks_when_the_best_is_damaged(run):
    save(run, 10, 0, best=True)
    save(run, 20, 1)
    path = next(run.checkpoints.glob("best-*")) / "ema.safetensors"
    path.unlink()
    path.write_bytes(b"damaged")
    told = []
    assert averaged_checkpoint(run, told.append, "to speak with").step == 20
    assert any("taking the latest" in text for text in told)
