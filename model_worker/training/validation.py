"""Validation on the held-out batches, with the averaged weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from model_worker.speech import losses
from model_worker.training.step import TrainStep, batch_signature


class Validation:
    """Adds up the losses of one pass over the held-out set."""

    def __init__(self, model, train_step: TrainStep, on_batch: Callable[[dict], None]):
        self._model = model
        self._train_step = train_step
        self._on_batch = on_batch
        self._own: list[np.ndarray] | None = None
        self._sums: dict[str, float] = {}
        self._frames = 0.0
        self.last: dict[str, float] = {}
        self._step = tf.function(
            self._measure, input_signature=[batch_signature()], autograph=False
        )

    def add(self, batch: dict[str, tf.Tensor]) -> None:
        """Measure one batch; the first one brings the averaged weights in."""
        if self._own is None:
            self._own = self._train_step.swap_in_averages()
        self._on_batch(batch)
        parts, frames = self._step(batch)
        for name, value in parts.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(value.numpy())
        self._frames += float(frames.numpy())

    def finish(self) -> float:
        """What is judged, the held-out mel error; the model has its own weights back.

        Durations and pitch have many right answers, and their errors rise while the speech still
        gets better: they are in the logs, not in the judgement.
        """
        frames = max(self._frames, 1.0)
        self.last = {f"val_{name}": value / frames for name, value in self._sums.items()}
        self.last["val_loss"] = sum(self.last.values())
        self.abandon()
        # A loss that is not a number is worse than any other, and JSON has no word for it.
        worst = float(np.finfo(np.float32).max)
        self.last = {n: v if math.isfinite(v) else worst for n, v in self.last.items()}
        return self.last["val_mel"]

    def abandon(self) -> None:
        """Put the model's own weights back, finished or not."""
        if self._own is not None:
            self._train_step.restore_weights(self._own)
        self._own, self._sums, self._frames = None, {}, 0.0

    def _measure(self, batch: dict[str, tf.Tensor]):
        outputs = self._model.training_outputs(batch, training=False, step=1 << 30)
        parts = losses.loss_parts(outputs, batch)
        return parts, losses.num_frames(batch)
