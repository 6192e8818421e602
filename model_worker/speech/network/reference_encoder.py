"""Turn a clip of a speaker into a vector that says how that speaker sounds, not what was said."""

import keras
import tensorflow as tf

from model_worker.speech.network.layers import Dense

FOLDED_FRAMES = 4


class ReferenceEncoder(keras.layers.Layer):
    """Strided convolutions over a reference mel and a mean over its time.

    It costs the same for any number of speakers.
    """

    def __init__(self, channels: int, vector_size: int, depth: int):
        super().__init__()
        self._fold = Dense(channels, activation="relu")
        self._convs = [
            keras.layers.Conv1D(channels, 3, padding="same", activation="relu")
            for _ in range(depth)
        ]
        self._out = Dense(vector_size)

    def call(self, reference_mel: tf.Tensor) -> tf.Tensor:
        """reference_mel (batch, frames, bins), normalised, frames of 4 -> (batch, vector_size)"""
        shape = tf.shape(reference_mel)
        bins = reference_mel.shape[-1]
        x = tf.reshape(reference_mel, [shape[0], shape[1] // FOLDED_FRAMES, FOLDED_FRAMES * bins])
        x = self._fold(x)
        for conv in self._convs:
            x = x + conv(x)
        # Not a mean, whose gradient would ask a GPU for the shape it had.
        positions = tf.cast(tf.shape(x)[1], x.dtype)
        return self._out(tf.squeeze(tf.reduce_sum(x, axis=1, keepdims=True) / positions, axis=1))
