"""Validation on the held-out batches, with the averaged weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from model_worker.training.step import TrainStep
from model_worker.training.task_losses import Signature, measured, specs_of
from shared.task.model_side import ModelSide

_LATE = 1 << 30  # a step after any fade has ended


class Validation:
    """Adds up the losses of one pass over the held-out set."""

    def __init__(
        self,
        model: keras.Model,
        task: ModelSide,
        signature: Signature,
        train_step: TrainStep,
        on_batch: Callable[[dict], None],
    ):
        self._model, self._task = model, task
        self._train_step = train_step
        self._on_batch = on_batch
        self._own: list[np.ndarray] | None = None
        self._sums: dict[str, float] = {}
        self._weight = 0.0
        self._parts: list[str] = []  # by name, as the graph returns them
        self.last: dict[str, float] = {}
        self.judged_by = f"val_{task.judged_by or 'loss'}"  # of these values
        self._step = tf.function(
            self._measure, input_signature=[specs_of(signature)], autograph=False
        )

    def add(self, batch: dict[str, tf.Tensor]) -> None:
        """Measure one batch; the first one brings the averaged weights in."""
        if self._own is None:
            self._own = self._train_step.swap_in_averages()
        self._on_batch(batch)
        *values, weight = self._step(batch).numpy().tolist()
        for name, value in zip(self._parts, values, strict=True):
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._weight += weight

    def finish(self) -> float:
        """What is judged; the model has its own weights back.

        That may be one part only: others may rise while the model still gets better, and are then
        in the logs, not in the judgement.
        """
        weight = self._weight or 1.0
        self.last = {f"val_{name}": value / weight for name, value in self._sums.items()}
        self.last["val_loss"] = sum(self.last.values())
        self.abandon()
        # A loss that is not a number is worse than any other, and JSON has no word for it.
        worst = float(np.finfo(np.float32).max)
        self.last = {n: v if math.isfinite(v) else worst for n, v in self.last.items()}
        return self.last[self.judged_by]

    def abandon(self) -> None:
        """Put the model's own weights back, finished or not."""
        if self._own is not None:
            self._train_step.restore_weights(self._own)
        self._own, self._sums, self._weight = None, {}, 0.0

    def _measure(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """The parts and the weight in one tensor: one way to the device instead of many."""
        parts, weight = measured(self._task, self._model, batch, False, tf.constant(_LATE))
        self._parts = list(parts)
        return tf.stack([*parts.values(), weight])
