"""What a run has trained, as a Keras model in the program of whoever trained it."""

from __future__ import annotations

import os
import warnings

import keras
import numpy as np

from model_worker.checkpoints.averaged import averaged_checkpoint
from model_worker.training.built_model import built_model
from model_worker.training.untrained_state import UntrainedState
from shared.config.toml_file import load_config
from shared.errors import CheckpointError, InputError
from shared.plan.index import Index
from shared.run.directory import RunDirectory
from shared.run.task_identity import check_same_task
from shared.task.model_side import Facts
from shared.task.registry import Task


def trained_model(
    run_dir: str | os.PathLike[str], task: str, accept_edited_task: bool = False
) -> tuple[keras.Model, Facts]:
    """The model of a run of `--task task`, with its best averaged weights, and what it was built from.

    Raises:
        InputError: this is no run of that task, it was edited since, or nothing is trained yet.
        CheckpointError: the weights are of another model.
        TaskError: the task's file can't be used.
    """
    run, named = RunDirectory(run_dir), Task.of(task)
    if not run.config.is_file() or not run.index.is_file():
        raise InputError(f"{run.path}: holds no run whose data was looked at.")
    check_same_task(run, named, accept_edited_task)
    config = load_config(run.config, task)
    facts = Facts(Index.load(run.index), config)
    model = built_model(named.model_side()(config), facts)
    beside = UntrainedState(model).variables
    groups = ["state"] if beside else []
    checkpoint = averaged_checkpoint(run, warnings.warn, "to be used", groups)
    weights = [array for _, array in sorted(checkpoint.groups["ema"].items())]
    state = checkpoint.groups.get("state", {})
    if _shapes(weights) != _shapes(model.trainable_variables) or state.keys() != beside.keys():
        raise CheckpointError(
            f"{checkpoint.path}: its weights do not fit the model that {named.name} builds. Name the "
            "file as it was when the run was trained."
        )
    for variable, array in zip(model.trainable_variables, weights, strict=True):
        variable.assign(array)
    for name, variable in beside.items():
        variable.assign(state[name])
    return model, facts


def _shapes(arrays: list[np.ndarray] | list[keras.Variable]) -> list[tuple[int, ...]]:
    return [tuple(array.shape) for array in arrays]
