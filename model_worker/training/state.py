"""A training run's state as checkpoints hold it: all that a bit-exact continuation needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from model_worker.checkpoints.files import Checkpoint
from model_worker.training.optimizer import Optimizer, StockOptimizer
from model_worker.training.step import TrainStep
from shared.clock import machine_s
from shared.errors import CheckpointError

Identity = dict[str, Any]  # what a checkpoint belongs to: names, and what must be equal
_COUNTERS = ("num_nonfinite", "nonfinite_in_row", "finite_since_scaled", "loss_scale")


@dataclasses.dataclass
class Position:
    """Where the run is, beside its weights."""

    step: int = 0
    next_batch: int = 0  # of the stream
    is_validated: bool = False  # whether the weights of this step were
    elapsed_s: float = 0.0  # wall clock used by this run before now
    earlier_s: float = 0.0  # of it, by commands before the present one
    begun_s: float = 0.0  # the present command, by `machine_s`
    fitted_steps: int = 0  # length of the learning-rate curve
    best_loss: float | None = None
    validations_since_best: int = 0

    def go_on_in_command(self, begun_s: float) -> None:
        """From now on the present command is the one that was begun then.

        It may be the same one: a process that is restarted, or rolls back, has lost time but must
        not count any of it twice.
        """
        if begun_s != self.begun_s:
            self.earlier_s, self.begun_s = self.elapsed_s, begun_s

    def look_at_clock(self) -> None:
        self.elapsed_s = self.earlier_s + machine_s() - self.begun_s


def _variables(train_step: TrainStep) -> dict[str, dict[str, tf.Variable]]:
    optimizers = [player.optimizer for player in train_step.players]
    engines = [each for each in optimizers if isinstance(each, Optimizer)]
    stock = [each for each in optimizers if isinstance(each, StockOptimizer)]
    groups = {
        "weights": dict(zip(train_step.names, train_step.weights, strict=True)),
        "first_moments": {n: v for each in engines for n, v in each.first_moments.items()},
        "second_moments": {n: v for each in engines for n, v in each.second_moments.items()},
        "ema": dict(zip(train_step.names, train_step.averages, strict=True)),
        "state": train_step.untrained.variables,
        "optimizer": {name: v for each in stock for name, v in each.state.items()},
    }
    return {group: variables for group, variables in groups.items() if variables}


def groups_of(train_step: TrainStep) -> dict[str, dict[str, np.ndarray]]:
    """The arrays of a checkpoint."""
    return {
        group: {name: variable.numpy() for name, variable in each.items()}
        for group, each in _variables(train_step).items()
    }


def _counters(train_step: TrainStep) -> dict[str, tf.Variable]:
    own = {name: getattr(train_step, name) for name in _COUNTERS}
    return own | {"num_applied": train_step.num_applied}


def counters_of(train_step: TrainStep) -> dict[str, int | float]:
    """What is counted beside the arrays."""
    return {name: each.numpy().item() for name, each in _counters(train_step).items()}


def put_back(
    groups: Mapping[str, Mapping[str, np.ndarray]],
    counters: Mapping[str, int | float],
    train_step: TrainStep,
) -> None:
    """Give a step the arrays and counters of another, which has the same."""
    for group, variables in _variables(train_step).items():
        for name, variable in variables.items():
            variable.assign(groups[group][name])
    for name, variable in _counters(train_step).items():
        variable.assign(tf.constant(counters[name], variable.dtype))


def state_of(
    train_step: TrainStep, position: Position, exclusions: list, identity: Identity
) -> dict[str, Any]:
    """The JSON beside the arrays."""
    return {
        "identity": identity,
        "position": dataclasses.asdict(position),
        "exclusions": exclusions,
        "counters": counters_of(train_step),
    }


def restore(checkpoint: Checkpoint, train_step: TrainStep, identity: Identity) -> Position:
    """Put a checkpoint back into the step; returns where it was.

    Raises:
        CheckpointError: it belongs to another model, data set, stream of batches or version.
    """
    found = checkpoint.state.get("identity")
    found = found if isinstance(found, dict) else {}
    for name, value in {"task": None, **identity}.items():  # a built-in task has no name there
        if found.get(name) != value:
            raise CheckpointError(
                f"{checkpoint.path}: its {name.replace('_', ' ')} differs from this run's "
                f"({_short(found.get(name))} there, {_short(value)} here). Use the settings and "
                "data it was made with, another --run-dir, or --fresh to start over."
            )
    _check_fits(checkpoint, train_step)
    _check_is_complete(checkpoint, train_step)
    put_back(checkpoint.groups, checkpoint.state["counters"], train_step)
    return Position(**checkpoint.state["position"])


def _check_fits(checkpoint: Checkpoint, train_step: TrainStep) -> None:
    for group, variables in _variables(train_step).items():
        if group not in checkpoint.groups:
            continue
        found = {name: (a.shape, a.dtype) for name, a in checkpoint.groups[group].items()}
        if found != {n: (tuple(v.shape), v.dtype.as_numpy_dtype) for n, v in variables.items()}:
            raise CheckpointError(
                f"{checkpoint.path}: {group} does not fit this model. It was made by another "
                "version; choose another --run-dir, or --fresh."
            )


def _check_is_complete(checkpoint: Checkpoint, train_step: TrainStep) -> None:
    """Its files are whole, so what is not in them was never there: another version wrote it.

    Raises:
        CheckpointError: names what is missing, or not known here.
    """
    needed = {
        "position": {field.name for field in dataclasses.fields(Position)},
        "counters": set(_counters(train_step)),
    }
    groups = _variables(train_step).keys()
    problems = [f"no {group}" for group in groups if group not in checkpoint.groups]
    problems += [f"an unknown {group}" for group in checkpoint.groups if group not in groups]
    if not isinstance(checkpoint.state.get("exclusions"), list):
        problems.append("no exclusions")
    for part, names in needed.items():
        found = checkpoint.state.get(part)
        if not isinstance(found, dict):
            problems.append(f"no {part}")
            continue
        problems += [f"no {part}/{name}" for name in sorted(names - found.keys())]
        problems += [f"an unknown {part}/{name}" for name in sorted(found.keys() - names)]
    if problems:
        raise CheckpointError(
            f"{checkpoint.path}: it has {', '.join(problems)}, so another version of Tandem made "
            "it. Go on with that version, choose another --run-dir, or --fresh to start over."
        )


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(map(_short, value.values()))
    text = str(value)
    return text if len(text) <= 16 else text[:12] + "…"
