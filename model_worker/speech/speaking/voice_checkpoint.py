"""The checkpoint that a run speaks with. Needs no TensorFlow: what is missing is said at once."""

from __future__ import annotations

from collections.abc import Callable

from model_worker.checkpoints.store import Checkpoint, CheckpointStore
from shared.errors import CheckpointError, InputError
from shared.run.directory import RunDirectory


def averaged_checkpoint(run: RunDirectory, on_skip: Callable[[str], None]) -> Checkpoint:
    """The averaged weights that are likely to speak best; only those are read.

    That is the best checkpoint by validation, unless training went on after it and no validation
    has found it worse since: a run that ends between two validations ends at its best.

    Raises:
        InputError: the run has no checkpoint yet.
        CheckpointError: it has, and none of them can be used.
    """
    store = CheckpointStore(run.checkpoints)
    latest = store.load_latest(on_skip, only_groups=["ema"])
    if latest is None:
        raise InputError(
            f"{run.path}: has no checkpoint to speak with. Train it first: "
            f"'python launcher.py --train-data DIR --run-dir {run.path}'."
        )
    if not latest.state["position"]["validations_since_best"]:
        return latest
    try:
        return store.load_best(on_skip, only_groups=["ema"]) or latest
    except CheckpointError as error:
        on_skip(f"The best checkpoint can't be used; taking the latest. {error}")
        return latest
