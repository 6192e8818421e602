"""The optimizer step as one graph: forward, backward, clip, update.

A group of `grad_accum` batches is normalised by its real frames together, so it equals one large
batch. A step whose loss or gradient is not finite changes nothing and is counted, in the graph,
without the host having to look.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from model_worker.speech import losses
from model_worker.training.optimizer import Optimizer
from shared.task.registry import Task


@dataclasses.dataclass(frozen=True)
class StepSettings:
    """What the step needs to know of the configuration."""

    grad_accum: int = 1
    weight_decay: float = 0.01
    gradient_clip: float = 1.0
    muon: bool = True
    xla: bool = False
    loss_scaling: bool = False


def _scalar(dtype: tf.DType, name: str, value: float = 0) -> tf.Variable:
    return tf.Variable(tf.constant(value, dtype), trainable=False, name=name)


def batch_signature() -> dict[str, tf.TensorSpec]:
    """The arrays of a batch of any bucket."""
    signature = Task.of("speech").form().signature()
    return {name: tf.TensorSpec(size, dtype) for name, (dtype, size) in signature.items()}


class TrainStep:
    """Owns the optimizer's state and the averaged weights beside the model's own."""

    def __init__(self, model: keras.Model, settings: StepSettings):
        """The model must be built: every variable it will ever have is there."""
        self._model = model
        self._settings = settings
        self.optimizer = Optimizer(
            model.trainable_variables,
            model.inner_matrices() if settings.muon else [],
            settings.weight_decay,
        )
        self.weights = self.optimizer.weights
        self.averages = self.optimizer.averages
        grouped = self.weights if settings.grad_accum > 1 else []
        self._gradients = [tf.Variable(tf.zeros_like(w), trainable=False) for w in grouped]
        self._frames = _scalar(tf.float32, "frames")
        self._num_broken = _scalar(tf.float32, "num_broken")
        self.num_nonfinite = _scalar(tf.int64, "num_nonfinite")
        self.nonfinite_in_row = _scalar(tf.int64, "nonfinite_in_row")
        self.loss_scale = _scalar(tf.float32, "loss_scale", 2.0**15 if settings.loss_scaling else 1)
        self.finite_since_scaled = _scalar(tf.int64, "finite_since_scaled")
        self._sums = {name: _scalar(tf.float64, name) for name in ("frames", *losses.PARTS)}
        self._norm = _scalar(tf.float32, "gradient_norm")
        self.num_traces = 0
        # XLA compiles for each bucket's shape; without it one graph serves all of them.
        compile_with_xla = True if settings.xla else None
        batch = None if settings.xla else batch_signature()
        step, number = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)
        # Nothing here needs Python's own words for tensors, and looking for them takes seconds.
        graph = functools.partial(tf.function, jit_compile=compile_with_xla, autograph=False)
        if settings.grad_accum == 1:
            whole = graph(self._whole_step, input_signature=batch and [batch, step, number, number])
            self._functions = (whole,)
        else:
            part = graph(self._accumulate, input_signature=batch and [batch, step])
            self._functions = (part, graph(self._apply_accumulated, input_signature=[number] * 2))
        self._take_numbers = tf.function(self._read_and_reset, autograph=False)

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
        if self._settings.xla:
            return self._functions
        return tuple(function.get_concrete_function() for function in self._functions)

    def drop_group(self) -> None:
        """Forget an unfinished group."""
        for gradient in self._gradients:
            gradient.assign(tf.zeros_like(gradient))
        self._frames.assign(0.0)
        self._num_broken.assign(0.0)

    def read_metrics(self) -> dict[str, float]:
        """Mean loss and its parts per frame since the last reading; waits for the device."""
        *sums, norm, num_nonfinite = self._take_numbers().numpy().tolist()
        values = dict(zip(self._sums, sums, strict=True))
        frames = max(values.pop("frames"), 1.0)
        parts = {name: value / frames for name, value in values.items()}
        return {
            "loss": sum(parts.values()),
            **{f"loss_{name}": value for name, value in parts.items()},
            "gradient_norm": norm,
            "nonfinite_steps": int(num_nonfinite),
        }

    def _read_and_reset(self) -> tf.Tensor:
        """All numbers for the log in one tensor, float64: one way to the device instead of many."""
        variables = (*self._sums.values(), self._norm, self.num_nonfinite)
        numbers = tf.stack([tf.cast(variable.read_value(), tf.float64) for variable in variables])
        with tf.control_dependencies([numbers]):
            for variable in self._sums.values():
                variable.assign(tf.zeros([], tf.float64))
        return numbers

    def _loss_sum(self, batch: dict[str, tf.Tensor], step: tf.Tensor):
        outputs = self._model.training_outputs(batch, training=True, step=step)
        parts = losses.loss_parts(outputs, batch)
        return tf.add_n(list(parts.values())), parts, losses.num_frames(batch)

    def _gradients_of(self, batch: dict[str, tf.Tensor], step: tf.Tensor):
        with tf.GradientTape() as tape:
            loss, parts, frames = self._loss_sum(batch, step)
            # Sums over frames would leave float16's range however small the scale.
            per_frame = 1.0 / tf.maximum(frames, 1.0) if self._settings.loss_scaling else 1.0
            scaled = loss * (self.loss_scale * per_frame)
        gradients = tape.gradient(scaled, self.weights, unconnected_gradients="zero")
        # A spoilt batch must not spoil the mean of the others in the log.
        is_finite = tf.math.is_finite(loss)
        for name, value in [*parts.items(), ("frames", frames)]:
            self._sums[name].assign_add(tf.where(is_finite, tf.cast(value, tf.float64), 0.0))
        gradients = [tf.cast(gradient, tf.float32) for gradient in gradients]
        if self._settings.loss_scaling:
            gradients = [gradient / per_frame for gradient in gradients]
        return gradients, frames, 1.0 - tf.cast(is_finite, tf.float32)

    def _whole_step(
        self, batch: dict[str, tf.Tensor], step: tf.Tensor, rate: tf.Tensor, ema_decay: tf.Tensor
    ) -> None:
        self.num_traces += 1
        gradients, frames, num_broken = self._gradients_of(batch, step)
        self._update(gradients, frames, num_broken, rate, ema_decay)

    def _accumulate(self, batch: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        self.num_traces += 1
        gradients, frames, num_broken = self._gradients_of(batch, step)
        for total, gradient in zip(self._gradients, gradients, strict=True):
            total.assign_add(gradient)
        self._frames.assign_add(frames)
        self._num_broken.assign_add(num_broken)

    def _apply_accumulated(self, rate: tf.Tensor, ema_decay: tf.Tensor) -> None:
        gradients = [gradient.read_value() for gradient in self._gradients]
        frames, num_broken = self._frames.read_value(), self._num_broken.read_value()
        self._update(gradients, frames, num_broken, rate, ema_decay)
        self.drop_group()

    def _update(
        self,
        gradients: list[tf.Tensor],
        frames: tf.Tensor,
        num_broken: tf.Tensor,
        rate: tf.Tensor,
        ema_decay: tf.Tensor,
    ) -> None:
        """`num_broken`: the batches of the group whose loss is not finite."""
        scale = 1.0 / (tf.maximum(frames, 1.0) * self.loss_scale)
        norm = tf.linalg.global_norm(gradients) * scale
        self._norm.assign(norm)
        factor = scale * tf.minimum(1.0, self._settings.gradient_clip / tf.maximum(norm, 1e-12))

        def apply() -> tf.Tensor:
            self.optimizer.apply(gradients, factor, rate, ema_decay)
            self.nonfinite_in_row.assign(0)
            self._grow_loss_scale()
            return tf.constant(True)

        def skip() -> tf.Tensor:
            self.num_nonfinite.assign_add(1)
            # While there is a scale to blame, the batches are not; it has no part in the loss itself.
            blames_batches = (num_broken > 0.0) | (self.loss_scale <= 1.0)
            self.nonfinite_in_row.assign_add(tf.cast(blames_batches, tf.int64))
            if self._settings.loss_scaling:
                factor = tf.where(blames_batches, 1.0, 0.5)
                self.loss_scale.assign(tf.maximum(self.loss_scale * factor, 1.0))
                self.finite_since_scaled.assign(0)
            return tf.constant(False)

        tf.cond(tf.math.is_finite(norm) & (num_broken == 0.0), apply, skip)

    def _grow_loss_scale(self) -> None:
        if not self._settings.loss_scaling:
            return
        self.finite_since_scaled.assign_add(1)
        grow = self.finite_since_scaled >= 2000
        self.loss_scale.assign(
            tf.where(grow, tf.minimum(self.loss_scale * 2.0, 2.0**24), self.loss_scale)
        )
        self.finite_since_scaled.assign(
            tf.where(grow, tf.zeros_like(self.finite_since_scaled), self.finite_since_scaled)
        )

    def swap_in_averages(self) -> list[np.ndarray]:
        """Have the model use the averaged weights; returns its own for `restore_weights`."""
        own = [weight.numpy() for weight in self.weights]
        for weight, average in zip(self.weights, self.averages, strict=True):
            weight.assign(average)
        return own

    def restore_weights(self, own: list[np.ndarray]) -> None:
        for weight, value in zip(self.weights, own, strict=True):
            weight.assign(value)
