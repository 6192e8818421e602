"""A training run's state as checkpoints hold it: what must come back for a bit-exact continuation."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from model_worker.checkpoint_files import Checkpoint
from model_worker.train_step import TrainStep
from shared.errors import CheckpointError

_GROUPS = ("weights", "first_moments", "second_moments", "ema")
_COUNTERS = ("num_applied", "num_nonfinite", "nonfinite_in_row", "finite_since_scaled", "loss_scale")


@dataclasses.dataclass
class Position:
    """Where the run is, beside its weights."""

    step: int = 0
    next_batch: int = 0  # of the stream
    elapsed_s: float = 0.0  # wall clock used by this run before now
    fitted_steps: int = 0  # length of the learning-rate curve
    best_loss: float | None = None
    validations_since_best: int = 0


def _variables(train_step: TrainStep) -> dict[str, list[tf.Variable]]:
    return {
        "weights": train_step.weights,
        "first_moments": train_step.first_moments,
        "second_moments": train_step.second_moments,
        "ema": train_step.averages,
    }


def groups_of(train_step: TrainStep) -> dict[str, dict[str, np.ndarray]]:
    """The arrays of a checkpoint."""
    return {
        group: {
            name: variable.numpy() for name, variable in zip(train_step.names, each, strict=True)
        }
        for group, each in _variables(train_step).items()
    }


def state_of(
    train_step: TrainStep, position: Position, exclusions: list, identity: dict[str, Any]
) -> dict[str, Any]:
    """The JSON beside the arrays."""
    counters = {name: getattr(train_step, name).numpy().item() for name in _COUNTERS}
    return {
        "identity": identity,
        "position": dataclasses.asdict(position),
        "exclusions": exclusions,
        "counters": counters,
    }


def restore(checkpoint: Checkpoint, train_step: TrainStep, identity: dict[str, Any]) -> Position:
    """Put a checkpoint back into the step; returns where it was.

    Raises:
        CheckpointError: it belongs to another model, data set or stream of batches.
    """
    found = checkpoint.state.get("identity", {})
    for name, value in identity.items():
        if found.get(name) != value:
            raise CheckpointError(
                f"{checkpoint.path}: its {name.replace('_', ' ')} differs from this run's "
                f"({_short(found.get(name))} there, {_short(value)} here). Use the settings and "
                "data it was made with, another --run-dir, or --fresh to start over."
            )
    for group, variables in _variables(train_step).items():
        arrays = checkpoint.groups[group]
        for name, variable in zip(train_step.names, variables, strict=True):
            if name not in arrays or tuple(arrays[name].shape) != tuple(variable.shape):
                raise CheckpointError(f"{checkpoint.path}: {group} does not fit this model.")
            variable.assign(arrays[name])
    for name, value in checkpoint.state["counters"].items():
        variable = getattr(train_step, name)
        variable.assign(tf.constant(value, variable.dtype))
    return Position(**checkpoint.state["position"])


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 16 else text[:12] + "…"
