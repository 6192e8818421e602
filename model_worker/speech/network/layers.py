"""The few layers the acoustic model is made of.

All keep padding at zero, so that a row never depends on its padding.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf

from model_worker.vocoder.products import Dense


class StatelessDropout(keras.layers.Layer):
    """Dropout drawn from (layer, step) alone, so that a resumed run draws the same one."""

    def __init__(self, rate: float, salt: int):
        super().__init__()
        self._rate = rate
        self._salt = salt

    def call(self, x: tf.Tensor, step: tf.Tensor, training: bool = False) -> tf.Tensor:
        if not training or not self._rate:
            return x
        seed = tf.stack([tf.cast(step, tf.int32), tf.constant(self._salt, tf.int32)])
        # The plain operation: a GPU has one kernel for it, and `tf.random` adds three around it.
        drawn = tf.raw_ops.StatelessRandomUniform(shape=tf.shape(x), seed=seed, dtype=tf.float32)
        kept = tf.constant(1.0 / (1.0 - self._rate), x.dtype)
        return x * tf.where(drawn >= self._rate, kept, tf.zeros([], x.dtype))


class RootMeanSquareNorm(keras.layers.Layer):
    """Scale every position to unit root mean square, in float32; half a layer norm's operations."""

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        self.gain = self.add_weight(
            shape=(x_shape[-1],), initializer="ones", name="gain", autocast=False
        )

    def call(
        self,
        x: tf.Tensor,
        condition: tf.Tensor | None = None,
        is_real: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """x (batch, positions, channels) -> like x

        With a condition (batch, channels) that is added, the result is activated, and zero where
        `is_real` (batch, positions, 1) is.
        """
        wide, gain = tf.cast(x, tf.float32), tf.convert_to_tensor(self.gain)
        if condition is None:
            return tf.cast(_normal(wide, gain), x.dtype)
        real = tf.cast(is_real, tf.float32)
        return tf.cast(_active(wide, gain, tf.cast(condition, tf.float32), real), x.dtype)


# What a function returns whose gradient is written out.
_WithGradient = tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor | None, ...]]]

# They are, because so they have half the operations of those that TensorFlow
# would find, and none that asks for shapes: a GPU does nothing while it waits for the next.


@tf.custom_gradient
def _normal(x: tf.Tensor, gain: tf.Tensor) -> _WithGradient:
    """x (batch, positions, channels) at unit root mean square, times gain (channels,); float32."""
    normal, scale = _at_unit_size(x)

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return _gradients_of_norm(upstream, normal, scale, gain)

    return normal * gain, gradient


@tf.custom_gradient
def _active(
    x: tf.Tensor, gain: tf.Tensor, condition: tf.Tensor, is_real: tf.Tensor
) -> _WithGradient:
    """The same plus condition (batch, channels), where that is positive and a position real."""
    normal, scale = _at_unit_size(x)
    active = tf.nn.relu(normal * gain + condition[:, tf.newaxis]) * is_real

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
        passed = tf.raw_ops.ReluGrad(gradients=upstream, features=active)
        of_x, of_gain = _gradients_of_norm(passed, normal, scale, gain)
        return of_x, of_gain, tf.reduce_sum(passed, axis=1), None

    return active, gradient


def _at_unit_size(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """x (batch, positions, channels) at unit root mean square, and what it was multiplied by."""
    square = tf.reduce_sum(tf.square(x), axis=-1, keepdims=True)
    scale = tf.math.rsqrt(square / x.shape[-1] + 1e-6)
    return x * scale, scale


def _gradients_of_norm(
    upstream: tf.Tensor, normal: tf.Tensor, scale: tf.Tensor, gain: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """With respect to x and to the gain."""
    along = upstream * normal
    off = tf.reduce_sum(along * gain, axis=-1, keepdims=True) / normal.shape[-1]
    return (upstream * gain - normal * off) * scale, tf.reduce_sum(along, axis=[0, 1])


class ConvBlock(keras.layers.Layer):
    """Residual block: norm, activation, convolution, with `expansion` a second, pointwise layer.

    The condition (batch, condition size) is added before the activation at every position.
    """

    def __init__(
        self, channels: int, kernel_size: int, dropout: float, salt: int, expansion: float = 0.0
    ):
        super().__init__()
        hidden = int(channels * expansion) or channels
        self._norm = RootMeanSquareNorm()
        self._conv = keras.layers.Conv1D(hidden, kernel_size, padding="same")
        self._condition = Dense(channels)
        self._out = Dense(channels) if expansion else None
        self._dropout = StatelessDropout(dropout, salt)

    def call(
        self,
        x: tf.Tensor,
        is_real: tf.Tensor,
        condition: tf.Tensor,
        step: tf.Tensor | int,
        training: bool = False,
        factor: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """x (batch, positions, channels), is_real (batch, positions, 1) -> like x

        With a factor (batch, 1, channels) what the block adds is multiplied by it.
        """
        hidden = self._conv(self._norm(x, self._condition(condition), is_real))
        hidden = self._dropout(hidden, step, training=training)
        if self._out is not None:
            hidden = self._out(tf.nn.relu(hidden))
        return x + (hidden if factor is None else hidden * factor)


class Predictor(keras.layers.Layer):
    """Small stack over symbols that predicts `outputs` numbers at each of them, in float32."""

    def __init__(
        self, channels: int, outputs: int, dropout: float, salt: int, first_guess: float = 0.0
    ):
        super().__init__()
        self._conv_1 = keras.layers.Conv1D(channels, 3, padding="same")
        self._condition = Dense(channels, use_bias=False)
        self._norm_1 = RootMeanSquareNorm()
        self._conv_2 = keras.layers.Conv1D(channels, 3, padding="same")
        self._norm_2 = RootMeanSquareNorm()
        self._dropout = StatelessDropout(dropout, salt)
        guess = keras.initializers.Constant(first_guess)
        self.head = Dense(outputs, dtype="float32", bias_initializer=guess)

    def call(
        self,
        x: tf.Tensor,
        is_real: tf.Tensor,
        condition: tf.Tensor,
        step: tf.Tensor | int,
        training: bool = False,
    ) -> tf.Tensor:
        """-> float32 (batch, symbols, outputs), 0 at padding

        Args:
            x: (batch, symbols, channels)
            is_real: (batch, symbols, 1)
            condition: (batch, size)
        """
        narrow = tf.cast(is_real, x.dtype)
        hidden = self._conv_1(x) + self._condition(condition)[:, tf.newaxis]
        hidden = self._norm_1(tf.nn.relu(hidden)) * narrow
        hidden = self._norm_2(tf.nn.relu(self._conv_2(hidden)))
        hidden = self._dropout(hidden, step, training=training)
        return self.head(tf.cast(hidden, tf.float32)) * tf.cast(is_real, tf.float32)
