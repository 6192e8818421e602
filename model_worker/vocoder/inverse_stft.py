"""From spectra to samples by matrix products and shifted additions: operations that any runtime has.

The framing is that of the mels: 1024-point periodic Hann, hop 256, 384 samples of context on each
side, so that `frames` frames give `frames * 256` samples.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from model_worker.vocoder.products import product
from shared.speech.mel import FFT, HOP, PAD, hann_window

BINS = FFT // 2 + 1
_OVERLAP = FFT // HOP


def _bases() -> tuple[np.ndarray, np.ndarray]:
    """From real and imaginary parts to the even and odd half of a frame, float32 (513, 513) each.

    A frame is even + odd, and even - odd read backwards: half the products of a whole transform.
    """
    angle = 2 * np.pi * np.outer(np.arange(BINS), np.arange(BINS)) / FFT
    weight = np.full((BINS, 1), 2.0 / FFT)
    weight[[0, -1]] = 1.0 / FFT
    return (weight * np.cos(angle)).astype(np.float32), (-weight * np.sin(angle)).astype(np.float32)


_EVEN, _ODD = _bases()
_WINDOW = hann_window().astype(np.float32)


def samples_of(real: tf.Tensor, imaginary: tf.Tensor) -> tf.Tensor:
    """The samples whose spectra come closest to these.

    Args: real, imaginary float32 (batch, frames, 513)
    Returns: float32 (batch, frames * 256)
    """
    even, odd = product(real, _EVEN), product(imaginary, _ODD)
    second = tf.reverse((even - odd)[..., 1:-1], [2])
    frames = tf.concat([even + odd, second], axis=2) * _WINDOW
    num_frames = tf.shape(real)[1]
    weights = tf.tile(np.square(_WINDOW)[np.newaxis, np.newaxis], [1, num_frames, 1])
    return _added_up(frames) / _added_up(weights)


def _added_up(frames: tf.Tensor) -> tf.Tensor:
    """Overlapping frames (batch, frames, 1024) as samples (batch, frames * 256), without the ends."""
    batch, num_frames = tf.shape(frames)[0], tf.shape(frames)[1]
    parts = tf.reshape(frames, [batch, num_frames, _OVERLAP, HOP])
    shifted = [
        tf.pad(parts[:, :, place], [[0, 0], [place, _OVERLAP - 1 - place], [0, 0]])
        for place in range(_OVERLAP)
    ]
    line = tf.reshape(tf.add_n(shifted), [batch, (num_frames + _OVERLAP - 1) * HOP])
    return line[:, PAD : PAD + num_frames * HOP]
