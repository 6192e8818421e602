"""The pitch that a mel was made with, read off it, so that a mel is all that the vocoder needs.

A small network says of each step of a scale how likely it is, as one would guess from the distances
between the harmonics; the pitch is the mean of the steps around the likeliest.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from model_worker.vocoder.layers import Block
from model_worker.vocoder.products import Dense
from shared.speech.mel import MAX_F0_HZ, MIN_F0_HZ

STEPS = 200
_LOG_STEP = float(np.log(MAX_F0_HZ / MIN_F0_HZ) / (STEPS - 1))
_EXACT_SCALE = np.log(MIN_F0_HZ) + _LOG_STEP * np.arange(STEPS)
_SCALE = _EXACT_SCALE.astype(np.float32)
_NEIGHBOURS = 3
_IMPOSSIBLE = -1e9
_CHANNELS, _BLOCKS = 64, 3


class PitchReader(keras.layers.Layer):
    """Normalised mel to the likelihood of each step of the scale."""

    def __init__(self) -> None:
        super().__init__()
        self._first = keras.layers.Conv1D(_CHANNELS, 5, padding="same")
        self._blocks = [Block(_CHANNELS, 2 * _CHANNELS, 1.0 / _BLOCKS) for _ in range(_BLOCKS)]
        self._last = Dense(STEPS, dtype="float32")

    @property
    def matrices(self) -> list[keras.Variable]:
        return [matrix for block in self._blocks for matrix in block.matrices]

    def call(self, mel: tf.Tensor) -> tf.Tensor:
        """mel (batch, frames, 80) -> float32 (batch, frames, STEPS), before the softmax"""
        x = self._first(mel)
        for block in self._blocks:
            x = block(x)
        return self._last(x)


def log_f0_of(likelihood: tf.Tensor) -> tf.Tensor:
    """The natural log of the likeliest pitch in Hz: (batch, frames, STEPS) -> float64 (batch, frames).

    Phases are sums of many pitches. As the likeliest step, which is known exactly, and a small distance
    from it the pitch is precise enough for two runtimes to agree on them.
    """
    best = tf.argmax(likelihood, axis=2, output_type=tf.int32)[:, :, tf.newaxis]
    # As floats: GPUs subtract no int32, and the host would be asked to.
    from_best = tf.cast(tf.range(STEPS), tf.float32) - tf.cast(best, tf.float32)
    is_near = tf.abs(from_best) <= _NEIGHBOURS
    share = tf.nn.softmax(tf.where(is_near, likelihood, _IMPOSSIBLE))
    steps = tf.cast(tf.reduce_sum(share * tf.where(is_near, from_best, 0.0), axis=2), tf.float64)
    return tf.gather(tf.constant(_EXACT_SCALE), best[:, :, 0]) + _LOG_STEP * steps


def surprise(likelihood: tf.Tensor, log_f0: tf.Tensor) -> tf.Tensor:
    """How little the true pitch was expected, in nats, float32 (batch, frames)."""
    distance = (log_f0[:, :, tf.newaxis] - _SCALE) / _LOG_STEP
    wanted = tf.nn.softmax(-0.5 * tf.square(distance))
    return tf.nn.softmax_cross_entropy_with_logits(wanted, likelihood)
