"""Products of all positions of a batch with one matrix, as one product of all positions in a row.

With an unknown number of positions TensorFlow's and Keras's own compute shapes on the device, and the
host waits for every one of them.
"""

from __future__ import annotations

import keras
import tensorflow as tf


class Dense(keras.layers.Dense):
    """Keras's layer, of two or three dimensions."""

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if x.shape.rank != 3:
            return super().call(x)
        shape = tf.shape(x)
        y = super().call(tf.reshape(x, [-1, x.shape[2]]))
        return tf.reshape(y, [shape[0], shape[1], self.units])


def product(x: tf.Tensor, matrix: tf.Tensor, transposed: bool = False) -> tf.Tensor:
    """x (batch, positions, n) times matrix (n, m), or one (m, n) that is to be turned."""
    matrix, shape = tf.convert_to_tensor(matrix), tf.shape(x)
    y = tf.matmul(tf.reshape(x, [-1, x.shape[2]]), matrix, transpose_b=transposed)
    return tf.reshape(y, [shape[0], shape[1], matrix.shape[0 if transposed else 1]])
