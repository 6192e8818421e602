"""What the vocal cords give: the phase of every bin from a pitch contour, and noise.

A pulse train whose pitch stands still in a frame has a spectrum that can be written down: a lobe of the
window at each harmonic, turned by that harmonic's phase. So neither pulses nor a transform is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from model_worker.vocoder.inverse_stft import BINS
from shared.speech.mel import FFT, HOP, SAMPLE_RATE

_BIN_HZ = SAMPLE_RATE / FFT
# The lobe of a Hann window, in natural log, is close to a parabola out to two bins; beyond three it
# is no longer heard beside its neighbours.
_LOBE = float(np.log(2.0))
_LOBE_BINS = 3.0
_NOISE_FRAMES = 256  # three seconds, then the same again: nobody hears that
_CENTRE = np.where(np.arange(BINS) % 2, np.pi, 0.0).astype(np.float32)  # of a frame, as a phase


class Excitation(NamedTuple):
    """Of each bin: the phase of the harmonic it belongs to, and the height of its lobe there."""

    phase: tf.Tensor  # float32 (batch, frames, 513), radians
    log_lobe: tf.Tensor  # float32 (batch, frames, 513), 0 at a harmonic, lower between two


def excitation_of(log_f0: tf.Tensor) -> Excitation:
    """The excitation of a contour, natural log of Hz, float (batch, frames), without gaps."""
    # Long speech has thousands of periods, and the hundredth harmonic a hundred times as many.
    hertz = tf.exp(tf.cast(log_f0, tf.float64))
    steps = 0.5 * (hertz + tf.concat([hertz[:, :1], hertz[:, :-1]], axis=1)) * (HOP / SAMPLE_RATE)
    turns = tf.cumsum(steps, axis=1)
    turns = tf.cast(turns - tf.floor(turns), tf.float32)[:, :, tf.newaxis]
    spacing = tf.cast(hertz / _BIN_HZ, tf.float32)[:, :, tf.newaxis]
    bins = tf.range(BINS, dtype=tf.float32)
    harmonic = tf.round(bins / spacing)
    distance = tf.minimum(tf.abs(bins - harmonic * spacing), _LOBE_BINS)
    phase = harmonic * turns
    phase = 2 * np.pi * (phase - tf.floor(phase)) + _CENTRE
    return Excitation(phase, -_LOBE * tf.square(distance))


def _noise_table() -> np.ndarray:
    random = np.random.RandomState(1)  # whose numbers no version of numpy will change
    table = np.sqrt(0.5) * random.standard_normal((_NOISE_FRAMES, 2 * BINS))
    return table.astype(np.float32)


_NOISE = _noise_table()


def noise_of(num_frames: tf.Tensor, first: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Real and imaginary parts of white noise, float32 (batch, frames, 513) each.

    `first` int32 (batch,) is where in the table each row of the batch begins.
    """
    with tf.device("/CPU:0"):  # GPUs count in no int32; `first` is the host's
        place = (first[:, tf.newaxis] + tf.range(num_frames)) % _NOISE_FRAMES
    noise = tf.gather(_NOISE, place)
    return noise[..., :BINS], noise[..., BINS:]
