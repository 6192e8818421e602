"""--init-from: a new run that begins with the averaged weights of another one."""

from __future__ import annotations

from collections.abc import Callable

import keras

from model_worker.checkpoints.averaged import averaged_checkpoint
from model_worker.checkpoints.files import Checkpoint
from model_worker.training.step import TrainStep
from shared.errors import CheckpointError
from shared.plan.index import Index
from shared.run.directory import RunDirectory
from shared.task.model_side import ModelSide


def begin_from_run(
    path: str,
    model: keras.Model,
    train_step: TrainStep,
    task: ModelSide,
    index: Index,
    say: Callable[[str], None],
) -> None:
    """Put the weights of the run in `path` into a new run's step, and say what was not there.

    Raises:
        InputError, CheckpointError: the run has no weights that can be used.
    """
    run = RunDirectory(path)
    more_groups = ["state"] if train_step.untrained else []
    checkpoint = averaged_checkpoint(
        run, lambda text: say(f"⚠️  {text}"), "to begin with", more_groups
    )
    remark = begin_with(checkpoint, Index.load(run.index), model, train_step, task, index)
    say(f"🌱 Beginning with the weights of {path} (step {checkpoint.step})")
    if remark:
        say(f"   {remark}")


def begin_with(
    checkpoint: Checkpoint,
    other: Index,
    model: keras.Model,
    train_step: TrainStep,
    task: ModelSide,
    index: Index,
) -> str:
    """Give weights and averages the checkpoint's, as the task fits them; returns its remark.

    Moving statistics come with them, seeds don't: this run has its own.

    Raises:
        CheckpointError: they are of another model.
    """
    arrays, remark = task.begin_from(model, checkpoint.groups["ema"], index, other)
    statistics = {n: v for n, v in train_step.untrained.variables.items() if v.dtype.is_floating}
    needed = dict(zip(train_step.names, train_step.weights, strict=True))
    found = dict(arrays)
    for name, variable in [*needed.items(), *statistics.items()]:
        array = found.get(name) if name in needed else checkpoint.groups["state"].get(name)
        if array is None or tuple(array.shape) != tuple(variable.shape):
            raise CheckpointError(
                f"{checkpoint.path}: its weights do not fit this model. --init-from needs a run of "
                "the same --model-size, trained by this version."
            )
    for (name, weight), average in zip(needed.items(), train_step.averages, strict=True):
        weight.assign(found[name])
        average.assign(found[name])
    for name, variable in statistics.items():
        variable.assign(checkpoint.groups["state"][name])
    return remark
