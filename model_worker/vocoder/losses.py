"""How far made samples are from recorded ones, as an ear would say: by their spectra alone.

Phases are left out: nobody hears them by themselves, and no mel says what they were.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from model_worker.vocoder.products import product
from shared.speech.mel import FFT, LOG_FLOOR

# Transforms of these lengths, a quarter apart: what the long ones blur in time, the short ones see.
RESOLUTIONS = (256, 512, 1024, 2048)
PARTS = ("mel", "magnitude", "convergence")
_FLOOR = 1e-7  # of a squared magnitude


def loss_parts(
    made: tf.Tensor, true: tf.Tensor, weight: tf.Tensor, mel_basis: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Each of PARTS as a float32 scalar, summed over the rows of weight 1.

    Args: made, true float32 (batch, samples); weight float32 (batch,); mel_basis float32 (80, 513)
    """
    found = distances(made, true, mel_basis)
    return {name: tf.reduce_sum(each * weight) for name, each in found.items()}


def distances(made: tf.Tensor, true: tf.Tensor, mel_basis: tf.Tensor) -> dict[str, tf.Tensor]:
    """Each of PARTS for each row, float32 (batch,); 0 where nothing can be heard of a difference.

    mel: of the logarithms of the mels. magnitude: of the logarithms of the spectra, over all
    resolutions. convergence: of the spectra themselves, as a share of the true ones.
    """
    magnitude, convergence = [], []
    for size in RESOLUTIONS:
        ours, theirs = _magnitudes(made, size), _magnitudes(true, size)
        difference = tf.abs(tf.math.log(ours) - tf.math.log(theirs))
        magnitude.append(mean_of(difference))
        distance = tf.sqrt(_sum_of(tf.square(ours - theirs)) + 1e-6)
        loudness = tf.sqrt(_sum_of(tf.square(theirs)))
        convergence.append(distance / (loudness + 1.0))
        if size == FFT:
            difference = _log_mel(ours, mel_basis) - _log_mel(theirs, mel_basis)
            mel = mean_of(tf.abs(difference))
    count = len(RESOLUTIONS)
    return {
        "mel": mel,
        "magnitude": tf.add_n(magnitude) / count,
        "convergence": tf.add_n(convergence) / count,
    }


def _sum_of(values: tf.Tensor) -> tf.Tensor:
    """(batch, frames, bins) to (batch,); the gradient asks no GPU for the shape it had."""
    return tf.squeeze(tf.reduce_sum(values, [1, 2], keepdims=True), [1, 2])


@tf.custom_gradient
def mean_of(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """Over all but the first axis; the gradient asks no GPU for the shape it had either."""
    axes = list(range(1, values.shape.rank))
    shape = tf.shape(values)

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        count = tf.cast(tf.reduce_prod(shape[1:]), values.dtype)
        share = tf.reshape(upstream / count, [-1, *(1 for _ in axes)])
        return tf.broadcast_to(share, shape)

    return tf.reduce_mean(values, axes), gradient


def _magnitudes(samples: tf.Tensor, size: int) -> tf.Tensor:
    """float32 (batch, frames, size // 2 + 1), never 0."""
    frames = tf.signal.frame(samples, size, size // 4)
    with tf.init_scope(), tf.device("/CPU:0"):  # once, and not in every step
        window = tf.signal.hann_window(size, periodic=True).numpy()
    spectrum = tf.signal.rfft(frames * window)
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    return tf.sqrt(tf.maximum(power, _FLOOR))


def _log_mel(magnitudes: tf.Tensor, mel_basis: tf.Tensor) -> tf.Tensor:
    mel = product(magnitudes, mel_basis, transposed=True)
    return tf.math.log(tf.maximum(mel, LOG_FLOOR))
