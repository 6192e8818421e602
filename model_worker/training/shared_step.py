"""A step whose batches are shared by several replicas: what each batch says, and the update by all.

What a batch says is one vector: every gradient, then its weight, then whether it is broken. These
vectors are added up elsewhere, in the order of the batches and from zeros on, as one process with
`grad_accum` does it. Every replica then moves its weights by the same sum, and what moves beside them
as `moving_state` has it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from model_worker.training.moving_state import MovingState, NotShareable
from model_worker.training.step import Compiled, TrainStep
from model_worker.training.task_losses import Signature, specs_of
from shared.errors import TaskError
from shared.task.model_side import ModelSide
from shared.task.users_file import line_of


class Statement(NamedTuple):
    """What a replica's batch says, each float32 (values,).

    vector: is added up over the batches. log: what the log wants to know. operands: how it moves
    what moves beside the weights.
    """

    vector: np.ndarray
    log: np.ndarray
    operands: np.ndarray


class SharedStep:
    """One replica's side of a step, on the variables of a `TrainStep` made for whole steps."""

    def __init__(self, train_step: TrainStep, task: ModelSide, signature: Signature):
        self._step, self._task = train_step, task
        self._state = MovingState(train_step.untrained.keras_variables)
        self._begun: list[np.ndarray] | None = None  # the state that the step begins with
        self._shapes = train_step.gradient_shapes
        self._sizes = [math.prod(shape) for shape in self._shapes]
        self.num_values = sum(self._sizes) + 2
        state = [tf.TensorSpec(value.shape, value.dtype) for value in self._state.values]
        self._batch_spec = [specs_of(signature), tf.TensorSpec([], tf.int32), state]
        # XLA compiles for each bucket's shape; without it one graph serves all of them.
        is_whole = train_step.compiled is Compiled.WHOLE
        self._say = tf.function(
            self._said_of,
            input_signature=None if is_whole else self._batch_spec,
            jit_compile=True if is_whole else None,
            autograph=False,
        )
        number = tf.TensorSpec([], tf.float32)
        self._apply = tf.function(
            self._apply_total,
            input_signature=[tf.TensorSpec([self.num_values], tf.float32), number, number, state],
            autograph=False,
        )
        self._note = tf.function(
            train_step.note_log,
            input_signature=[tf.TensorSpec([train_step.num_logged], tf.float32)],
            autograph=False,
        )

    def warm_up(self) -> None:
        """Build the graphs ahead of the first batch: one of them says how the state moves.

        Raises:
            TaskError: the model keeps what replicas can't share.
        """
        tf.function(self._said_of, autograph=False).get_concrete_function(*self._batch_spec)
        self._apply.get_concrete_function()

    def begin(self) -> None:
        """Forget what was known of the state: it was put back to another step's."""
        self._begun = None

    def say(self, batch: dict[str, tf.Tensor], step: int, place: int) -> Statement:
        """What a batch, at its place in the step, says to the weights as they are."""
        if self._begun is None:
            self._begun = [value.numpy() for value in self._state.values]
        state = [tf.constant(value) for value in self._state.at(place, self._begun)]
        found = self._say(batch, tf.constant(step, tf.int32), state)
        return Statement(*(each.numpy() for each in found))

    def apply(self, total: np.ndarray, operands: np.ndarray, rate: float, ema_decay: float) -> None:
        """Move the weights by what all batches of the step say together.

        Args:
            total: the sum of their vectors.
            operands: of all of them, (batches, values), in the order of the stream.
        """
        begun = self._begun
        if begun is None:
            begun = [value.numpy() for value in self._state.values]
        state = [tf.constant(value) for value in self._state.after(begun, operands)]
        numbers = tf.constant(rate, tf.float32), tf.constant(ema_decay, tf.float32)
        self._apply(tf.constant(total), *numbers, state)
        self._begun = None

    def note_log(self, log: np.ndarray) -> None:
        """Have the log know of a batch, a replica's own or another's."""
        self._note(tf.constant(log))

    def _said_of(
        self, batch: dict[str, tf.Tensor], step: tf.Tensor, state: list[tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        with self._state.scope(state) as scope:
            found = self._step.found_in(batch, step)
            flat = [tf.reshape(gradient, [-1]) for gradient in found.gradients]
            vector = tf.concat([*flat, found.weight[None], found.num_broken[None]], 0)
            log = found.log
        try:
            operands = self._state.take_apart(scope, state, [vector, log])
        except NotShareable as name:
            raise TaskError(
                f"{line_of(self._task.build)}: each batch changes {name} of the model in a way that "
                "several model GPUs can't share. Train it with one --model-gpu."
            ) from None
        return vector, log, operands

    def _apply_total(
        self, total: tf.Tensor, rate: tf.Tensor, ema_decay: tf.Tensor, state: list[tf.Tensor]
    ) -> None:
        *flat, weight, num_broken = tf.split(total, [*self._sizes, 1, 1])
        gradients = [
            tf.reshape(part, shape) for part, shape in zip(flat, self._shapes, strict=True)
        ]
        self._step.untrained.note()  # a step that is not taken puts it back
        for variable, value in zip(self._state.values, state, strict=True):
            variable.assign(value)
        self._step.updating(gradients, weight[0], num_broken[0], rate, ema_decay)
