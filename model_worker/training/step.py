"""The optimizer step as one graph: forward, backward, clip, update.

A group of `grad_accum` batches is normalised by its weight together, so it equals one large batch. A
step whose loss or gradient is not finite changes nothing and is counted, in the graph, without the
host having to look.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from model_worker.training.loss_health import LossHealth
from model_worker.training.optimizer import Optimizer
from model_worker.training.players import Player, players_of
from model_worker.training.task_losses import (
    Signature,
    check_parts,
    measured,
    parts_of,
    specs_of,
)
from model_worker.training.untrained_state import UntrainedState
from shared.errors import TaskError
from shared.task.model_side import ModelSide
from shared.task.users_file import line_of

_EMA_WARMUP = 10.0
_FIRST_LOSS_SCALE = 2.0**15
_STEPS_UNTIL_SCALE_GROWS = 2000


class Compiled(enum.Enum):
    """What of a step XLA compiles."""

    NOTHING = "nothing"
    # What the optimizer does: to a GPU it is thousands of small things, and a branch to wait for. Its
    # shapes are always the same, so it is compiled once.
    UPDATE = "update"
    WHOLE = "whole"  # all of it, once for the shape of each bucket


@dataclasses.dataclass(frozen=True)
class StepSettings:
    """What the step needs to know of the configuration."""

    grad_accum: int = 1
    weight_decay: float = 0.01
    gradient_clip: float = 1.0
    muon: bool = True
    compiled: Compiled = Compiled.NOTHING
    loss_scaling: bool = False


def _scalar(dtype: tf.DType, name: str, value: float = 0) -> tf.Variable:
    return tf.Variable(tf.constant(value, dtype), trainable=False, name=name)


class Found(NamedTuple):
    """What one batch says: in the graph, all float32.

    gradients: of all players one after the other. weight: what they are divided by, in the end.
    num_broken: 1.0 if its loss is not finite. log: what the log wants to know, in one vector.
    """

    gradients: list[tf.Tensor]
    weight: tf.Tensor
    num_broken: tf.Tensor
    log: tf.Tensor


def _divisor(weight: tf.Tensor) -> tf.Tensor:
    """What sums are divided by: a group may have no real example at all."""
    return tf.where(tf.equal(weight, 0.0), 1.0, weight)


class TrainStep:
    """Owns the state of the optimizers and the averaged weights beside the model's own."""

    def __init__(
        self, model: keras.Model, task: ModelSide, signature: Signature, settings: StepSettings
    ):
        """The model must be built: every variable it will ever have is there.

        Raises:
            TaskError: the task's players, optimizers or losses can't be used.
        """
        self._model, self._task, self._settings = model, task, settings
        # By place, not by Keras's own names: those depend on what was built before in the process.
        variables = {
            f"{i:03d}.{v.path.rsplit('/')[-1]}": v for i, v in enumerate(model.trainable_variables)
        }
        self.names = list(variables)
        self.weights = [v.value for v in variables.values()]
        self.averages = [tf.Variable(w, trainable=False, name="ema") for w in self.weights]
        self._averaged = dict(
            zip(self.names, zip(self.weights, self.averages, strict=True), strict=True)
        )
        self.untrained = UntrainedState(model)
        self.players = players_of(task, model, variables, settings.muon, settings.weight_decay)
        self._parts = parts_of(task, model, signature)
        self._check_owners()
        # Steps that were applied, as Adam counts: skipped ones are not in it.
        self.num_applied = _scalar(tf.int64, "num_applied")
        grouped = [self.weights[place] for player in self.players for place in player.places]
        grouped = grouped if settings.grad_accum > 1 else []
        self._gradients = [tf.Variable(tf.zeros_like(w), trainable=False) for w in grouped]
        self._weight = _scalar(tf.float32, "weight")
        self._num_broken = _scalar(tf.float32, "num_broken")
        self.num_nonfinite = _scalar(tf.int64, "num_nonfinite")
        self.nonfinite_in_row = _scalar(tf.int64, "nonfinite_in_row")
        self.loss_scale = _scalar(tf.float32, "loss_scale", self._first_loss_scale)
        self.finite_since_scaled = _scalar(tf.int64, "finite_since_scaled")
        self._weight_sum = _scalar(tf.float64, "weight_sum")
        self._sums = {name: _scalar(tf.float64, "sum") for name in self._parts}
        self.health = LossHealth(task, self._parts)
        self._norm = _scalar(tf.float32, "gradient_norm")
        self.num_traces = 0
        self._batch_spec = specs_of(signature)
        # Nothing here needs Python's own words for tensors, and looking for them takes seconds.
        self._take_numbers = tf.function(self._read_and_reset, autograph=False)
        self.compile(settings.compiled)

    def compile(self, compiled: Compiled) -> None:
        """Have XLA compile so much of the steps that follow."""
        self.__dict__.pop("_graphs", None)
        self.compiled = compiled
        self._keeps_by_choice = compiled is not Compiled.NOTHING and self._can_keep_by_choice()
        # XLA compiles for each bucket's shape; without it one graph serves all of them.
        is_whole = compiled is Compiled.WHOLE
        batch = None if is_whole else self._batch_spec
        step, number = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)
        plain = functools.partial(tf.function, autograph=False)
        graph = functools.partial(plain, jit_compile=True) if is_whole else plain
        self._functions: tuple[tf.types.experimental.PolymorphicFunction, ...]
        if self._settings.grad_accum == 1:
            whole = graph(self._whole_step, input_signature=batch and [batch, step, number, number])
            self._functions = (whole,)
        else:
            part = graph(self._accumulate, input_signature=batch and [batch, step])
            self._functions = (part, graph(self._apply_accumulated, input_signature=[number] * 2))
        # What a step calls in its graph to move the weights, and to have the log know of a batch.
        self.updating, self.note_log = self._update, self._note_log
        if self._keeps_by_choice:
            self.updating = plain(self._update, jit_compile=True)
            self.note_log = plain(self._note_log, jit_compile=True)

    def _can_keep_by_choice(self) -> bool:
        """A task's own optimizers stay outside, and what only a branch can put back."""
        own = all(isinstance(player.optimizer, Optimizer) for player in self.players)
        return own and not self.untrained

    def _check_owners(self) -> None:
        """Every part of the loss has a player, and every player a part.

        Raises:
            TaskError: names the one that has none.
        """
        names = ", ".join(repr(player.name) for player in self.players)
        for part in self._parts:
            if not any(player.owns(part) for player in self.players):
                raise TaskError(
                    f"{line_of(self._task.losses)}: the part {part!r} belongs to no player "
                    f"({names}). Call it 'player/part'."
                )
        for player in self.players:
            if not any(map(player.owns, self._parts)):
                raise TaskError(
                    f"{line_of(self._task.losses)}: no part of the loss is one of the player "
                    f"{player.name!r}. Return one that is called '{player.name}/part'."
                )

    def __call__(
        self,
        batch: dict[str, tf.Tensor],
        step: int,
        rate: float,
        ema_decay: float = 0.999,
        is_last: bool = True,
    ) -> None:
        """Train on one batch of the group; the weights change with the group's last one."""
        step_tensor = tf.constant(step, tf.int32)
        numbers = tf.constant(rate, tf.float32), tf.constant(ema_decay, tf.float32)
        if self._settings.grad_accum == 1:
            (whole,) = self._graphs
            whole(batch, step_tensor, *numbers)
            return
        part, apply = self._graphs
        part(batch, step_tensor)
        if is_last:
            apply(*numbers)

    def warm_up(self) -> None:
        """Build the graph ahead of the first batch, where one graph serves all shapes."""
        _ = self._graphs

    @functools.cached_property
    def _graphs(self) -> tuple[Callable, ...]:
        """What a step calls: the one graph of all shapes itself, where there is one.

        To have TensorFlow find it again for every step took a quarter of the time around the step.
        """
        if self.compiled is Compiled.WHOLE:
            return self._functions
        return tuple(function.get_concrete_function() for function in self._functions)

    def graphs_for(self, arrays: Mapping[str, tuple[str, tuple[int, ...]]]) -> list[tf.Graph]:
        """The graphs of a step on batches of exactly these arrays, traced and never run."""
        batch = {name: tf.TensorSpec(shape, dtype) for name, (dtype, shape) in arrays.items()}
        step, number = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)
        traces: list[tuple[Callable, list]] = [(self._whole_step, [batch, step, number, number])]
        if self._settings.grad_accum > 1:
            traces = [
                (self._accumulate, [batch, step]),
                (self._apply_accumulated, [number, number]),
            ]
        return [
            tf.function(work, autograph=False).get_concrete_function(*specs).graph
            for work, specs in traces
        ]

    @property
    def num_logged(self) -> int:
        """How many numbers of a batch the log wants to know: sums, and what was wrong in each."""
        return 2 * (1 + len(self._parts))

    @property
    def gradient_shapes(self) -> list[tf.TensorShape]:
        """Of each of `Found.gradients`."""
        return [self.weights[place].shape for player in self.players for place in player.places]

    def drop_group(self) -> None:
        """Forget an unfinished group."""
        self.untrained.put_back()
        self._clear_group()

    def _clear_group(self) -> None:
        for gradient in self._gradients:
            gradient.assign(tf.zeros_like(gradient))
        self._weight.assign(0.0)
        self._num_broken.assign(0.0)

    def read_metrics(self) -> dict[str, float]:
        """Mean loss and its parts per unit of weight since the last reading; waits for the device.

        Raises:
            TaskError: the weight has been nothing for long.
        """
        numbers = self._take_numbers().numpy()
        num_parts = len(self._parts)
        self.health.raise_if_weightless(numbers[num_parts + 3 :])
        weight, *sums, norm, num_nonfinite = numbers[: num_parts + 3].tolist()
        means = {
            name: value / (weight or 1.0) for name, value in zip(self._parts, sums, strict=True)
        }
        return {
            "loss": sum(means.values()),
            **{f"loss_{name}": value for name, value in means.items()},
            "gradient_norm": norm,
            "nonfinite_steps": int(num_nonfinite),
        }

    def forget_log(self) -> None:
        """Of all batches since the last reading."""
        self._take_numbers()
        self.health.forget()

    def why_it_broke(self) -> str:
        """Why the last step changed nothing, in words; empty where it did."""
        return self.health.in_words() if int(self.nonfinite_in_row.numpy()) else ""

    def _read_and_reset(self) -> tf.Tensor:
        """All numbers for the log in one tensor, float64: one way to the device instead of many."""
        sums = (self._weight_sum, *self._sums.values())
        variables = (*sums, self._norm, self.num_nonfinite)
        numbers = tf.stack([tf.cast(variable.read_value(), tf.float64) for variable in variables])
        wrong = tf.cast(self.health.in_row.read_value(), tf.float64)
        numbers = tf.concat([numbers, wrong], 0)
        with tf.control_dependencies([numbers]):
            for variable in sums:
                variable.assign(tf.zeros([], tf.float64))
        return numbers

    def _gradients_of(
        self, batch: dict[str, tf.Tensor], step: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]:
        """-> the gradients of all players one after the other, the batch's weight, 1.0 if broken."""
        self.untrained.note()
        found = self.found_in(batch, step)
        self.note_log(found.log)
        return found.gradients, found.weight, found.num_broken

    def _note_log(self, log: tf.Tensor) -> None:
        """Have the log know of a batch, in the graph."""
        sums, wrong = tf.split(log, 2)
        variables = (self._weight_sum, *self._sums.values())
        for variable, value in zip(variables, tf.unstack(sums), strict=True):
            variable.assign_add(tf.cast(value, tf.float64))
        self.health.note(wrong > 0.0)

    def found_in(self, batch: dict[str, tf.Tensor], step: tf.Tensor) -> Found:
        """Forward and backward, in the graph; the untrained state moves with it."""
        with tf.GradientTape(persistent=len(self.players) > 1) as tape:
            parts, weight = measured(self._task, self._model, batch, True, step)
            check_parts(self._task, parts, self._parts)
            wrong = self.health.wrong_in(parts, weight, batch)
            losses = [
                tf.add_n([value for name, value in parts.items() if player.owns(name)])
                for player in self.players
            ]
            # Sums over a batch would leave float16's range however small the scale.
            per_weight = 1.0 / _divisor(weight) if self._settings.loss_scaling else 1.0
            scaled = [loss * (self.loss_scale * per_weight) for loss in losses]
        gradients = []
        for player, loss in zip(self.players, scaled, strict=True):
            gradients += self._gradients_for(player, tape, loss)
        # A spoilt batch must not spoil the mean of the others in the log.
        is_finite = tf.math.is_finite(tf.add_n(losses)) & tf.math.is_finite(weight)
        sums = tf.stack([weight, *(parts[name] for name in self._parts)])
        log = tf.concat([tf.where(is_finite, sums, 0.0), tf.cast(wrong, tf.float32)], 0)
        gradients = [tf.cast(gradient, tf.float32) for gradient in gradients]
        if self._settings.loss_scaling:
            gradients = [gradient / per_weight for gradient in gradients]
        return Found(gradients, weight, 1.0 - tf.cast(is_finite, tf.float32), log)

    def _gradients_for(self, player: Player, tape: tf.GradientTape, loss: tf.Tensor) -> list:
        weights = [self.weights[place] for place in player.places]
        gradients = tape.gradient(loss, weights)
        if all(gradient is None for gradient in gradients):
            whose = f"the player {player.name!r}'s" if player.name else "the model's"
            raise TaskError(
                f"{line_of(self._task.losses)}: the loss does not depend on any of {whose} "
                "variables, so there is nothing to learn from it. Compute it from what the model "
                "returns, with TensorFlow or keras.ops, and without .numpy()."
            )
        return [
            tf.zeros_like(weight) if gradient is None else gradient
            for weight, gradient in zip(weights, gradients, strict=True)
        ]

    def _whole_step(
        self, batch: dict[str, tf.Tensor], step: tf.Tensor, rate: tf.Tensor, ema_decay: tf.Tensor
    ) -> None:
        self.num_traces += 1
        gradients, weight, num_broken = self._gradients_of(batch, step)
        self.updating(gradients, weight, num_broken, rate, ema_decay)

    def _accumulate(self, batch: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        self.num_traces += 1
        gradients, weight, num_broken = self._gradients_of(batch, step)
        for total, gradient in zip(self._gradients, gradients, strict=True):
            total.assign_add(gradient)
        self._weight.assign_add(weight)
        self._num_broken.assign_add(num_broken)

    def _apply_accumulated(self, rate: tf.Tensor, ema_decay: tf.Tensor) -> None:
        gradients = [gradient.read_value() for gradient in self._gradients]
        weight, num_broken = self._weight.read_value(), self._num_broken.read_value()
        self.updating(gradients, weight, num_broken, rate, ema_decay)
        self._clear_group()

    def _update(
        self,
        gradients: list[tf.Tensor],
        weight: tf.Tensor,
        num_broken: tf.Tensor,
        rate: tf.Tensor,
        ema_decay: tf.Tensor,
    ) -> None:
        """Move the weights by a group's gradients, in the graph.

        `num_broken`: the batches of the group whose loss is not finite.
        """
        scale = 1.0 / (_divisor(weight) * self.loss_scale)
        updates, norms = [], []
        remaining = iter(gradients)
        for player in self.players:
            own = [next(remaining) for _ in player.places]
            norm = tf.linalg.global_norm(own) * scale
            clip = tf.minimum(1.0, self._settings.gradient_clip / tf.maximum(norm, 1e-12))
            norms.append(norm)
            updates.append((player.optimizer, own, scale * clip))
        norm = norms[0] if len(norms) == 1 else tf.norm(norms)
        self._norm.assign(norm)
        is_sound = tf.math.is_finite(norm) & (num_broken == 0.0)
        if self.untrained:
            is_sound &= self.untrained.is_finite()
        # Steps that were applied, as Adam counts, with this one.
        count = tf.cast(self.num_applied.read_value() + 1, tf.float32)
        decay = tf.minimum(ema_decay, (1.0 + count) / (_EMA_WARMUP + count))

        def follow(name: str) -> None:
            weight, average = self._averaged[name]
            average.assign_sub((1.0 - decay) * (average - weight))

        def apply() -> tf.Tensor:
            for optimizer, own, factor in updates:
                optimizer.apply(own, factor, rate, count, follow)
            self.untrained.accept()
            return tf.constant(True)

        def skip() -> tf.Tensor:
            self.untrained.put_back()
            return tf.constant(False)

        if self._keeps_by_choice:
            self._keep_unless(is_sound, apply)
        else:
            tf.cond(is_sound, apply, skip)
        self._count(is_sound, num_broken)

    def _keep_unless(self, is_sound: tf.Tensor, apply: Callable[[], tf.Tensor]) -> None:
        """Apply, and choose what is kept afterwards: the host has no branch to wait for."""
        optimizers = [player.optimizer for player in self.players]
        moved = [v for each in optimizers if isinstance(each, Optimizer) for v in each.variables]
        before = [(v, v.read_value()) for v in (*moved, *self.averages)]
        apply()
        for variable, value in before:
            variable.assign(tf.where(is_sound, variable, value))

    def _count(self, is_sound: tf.Tensor, num_broken: tf.Tensor) -> None:
        """Note what became of a step, and fit the scale of the loss to it."""
        sound = tf.cast(is_sound, tf.int64)
        self.num_applied.assign_add(sound)
        self.num_nonfinite.assign_add(1 - sound)
        # While there is a scale to blame, the batches are not; it has no part in the loss itself.
        blames_batches = (num_broken > 0.0) | (self.loss_scale <= 1.0)
        in_row = self.nonfinite_in_row + tf.cast(blames_batches, tf.int64)
        self.nonfinite_in_row.assign((1 - sound) * in_row)
        if not self._settings.loss_scaling:
            return
        since = sound * (self.finite_since_scaled + 1)
        grow = since >= _STEPS_UNTIL_SCALE_GROWS
        grown = tf.where(grow, tf.minimum(self.loss_scale * 2.0, 2.0**24), self.loss_scale)
        shrunk = tf.maximum(self.loss_scale * tf.where(blames_batches, 1.0, 0.5), 1.0)
        self.loss_scale.assign(tf.where(is_sound, grown, shrunk))
        self.finite_since_scaled.assign(tf.where(grow, tf.zeros_like(since), since))

    @property
    def _first_loss_scale(self) -> float:
        return _FIRST_LOSS_SCALE if self._settings.loss_scaling else 1.0

    def settle_loss_scale(self) -> None:
        """After a checkpoint of a run that computed in other numbers: its scale is of no use here."""
        if self._settings.loss_scaling != (self.loss_scale.numpy() > 1.0):
            self.loss_scale.assign(self._first_loss_scale)

    def swap_in_averages(self) -> list[np.ndarray]:
        """Have the model use the averaged weights; returns its own state for `restore_weights`."""
        own = [variable.numpy() for variable in self._used]
        for weight, average in zip(self.weights, self.averages, strict=True):
            weight.assign(average)
        return own

    def restore_weights(self, own: list[np.ndarray]) -> None:
        """Whatever was done with the averaged weights has left nothing behind."""
        for variable, value in zip(self._used, own, strict=True):
            variable.assign(value)

    @property
    def _used(self) -> list[tf.Variable]:
        return [*self.weights, *self.untrained.variables.values()]
