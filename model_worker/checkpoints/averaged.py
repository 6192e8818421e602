"""The averaged weights of a run, for whoever goes on from them. Needs no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from model_worker.checkpoints.files import Checkpoint
from model_worker.checkpoints.store import CheckpointStore
from shared.config.installation import PROGRAM
from shared.errors import CheckpointError, InputError
from shared.run.directory import RunDirectory


def averaged_checkpoint(
    run: RunDirectory,
    on_skip: Callable[[str], None],
    purpose: str,
    more_groups: Iterable[str] = (),
) -> Checkpoint:
    """The averaged weights that are likely to be best; only those, and `more_groups`, are read.

    That is the best checkpoint by validation, unless training went on after it and no validation
    has found it worse since: a run that ends between two validations ends at its best.

    Args:
        purpose: what the checkpoint is for, as in "to speak with".

    Raises:
        InputError: the run has no checkpoint yet.
        CheckpointError: it has, and none of them can be used.
    """
    store, groups = CheckpointStore(run.checkpoints), ["ema", *more_groups]
    latest = store.load_latest(on_skip, only_groups=groups)
    if latest is None:
        raise InputError(
            f"{run.path}: has no checkpoint {purpose}. Train it first: "
            f"'{PROGRAM} --train-data DIR --run-dir {run.path}'."
        )
    if not latest.state["position"]["validations_since_best"]:
        return latest
    try:
        return store.load_best(on_skip, only_groups=groups) or latest
    except CheckpointError as error:
        on_skip(f"The best checkpoint can't be used; taking the latest. {error}")
        return latest
