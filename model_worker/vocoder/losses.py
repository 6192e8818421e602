"""How far made samples are from recorded ones, as an ear would say: by their spectra alone.

Phases are left out: nobody hears them by themselves, and no mel says what they were.
"""

from __future__ import annotations

import tensorflow as tf

from shared.speech.mel import FFT, LOG_FLOOR

# Transforms of these lengths, a quarter apart: what the long ones blur in time, the short ones see.
RESOLUTIONS = (256, 512, 1024, 2048)
PARTS = ("mel", "magnitude", "convergence")
_FLOOR = 1e-7  # of a squared magnitude
_MEL_WEIGHT, _MAGNITUDE_WEIGHT = 1.0, 1.0


def loss_parts(
    made: tf.Tensor, true: tf.Tensor, weight: tf.Tensor, mel_basis: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Each of PARTS as a float32 scalar, summed over the rows of weight 1.

    Args: made, true float32 (batch, samples); weight float32 (batch,); mel_basis float32 (80, 513)
    """
    magnitude, convergence = [], []
    for size in RESOLUTIONS:
        ours, theirs = _magnitudes(made, size), _magnitudes(true, size)
        difference = tf.abs(tf.math.log(ours) - tf.math.log(theirs))
        magnitude.append(tf.reduce_mean(difference, axis=[1, 2]))
        distance = tf.sqrt(tf.reduce_sum(tf.square(ours - theirs), axis=[1, 2]) + 1e-6)
        convergence.append(
            distance / (tf.sqrt(tf.reduce_sum(tf.square(theirs), axis=[1, 2])) + 1.0)
        )
        if size == FFT:
            mel = tf.reduce_mean(
                tf.abs(_log_mel(ours, mel_basis) - _log_mel(theirs, mel_basis)), [1, 2]
            )
    count = len(RESOLUTIONS)
    return {
        "mel": _MEL_WEIGHT * tf.reduce_sum(mel * weight),
        "magnitude": _MAGNITUDE_WEIGHT * tf.reduce_sum(tf.add_n(magnitude) * weight) / count,
        "convergence": tf.reduce_sum(tf.add_n(convergence) * weight) / count,
    }


def _magnitudes(samples: tf.Tensor, size: int) -> tf.Tensor:
    """float32 (batch, frames, size // 2 + 1), never 0."""
    frames = tf.signal.frame(samples, size, size // 4)
    spectrum = tf.signal.rfft(frames * tf.signal.hann_window(size, periodic=True))
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    return tf.sqrt(tf.maximum(power, _FLOOR))


def _log_mel(magnitudes: tf.Tensor, mel_basis: tf.Tensor) -> tf.Tensor:
    mel = tf.tensordot(magnitudes, mel_basis, [[2], [1]])
    return tf.math.log(tf.maximum(mel, LOG_FLOOR))
