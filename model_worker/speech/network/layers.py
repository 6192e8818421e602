"""The few layers the acoustic model is made of.

All keep padding at zero, so that a row never depends on its padding.
"""

import keras
import tensorflow as tf


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
        kept = tf.random.stateless_uniform(tf.shape(x), seed) >= self._rate
        return tf.where(kept, x / tf.cast(1.0 - self._rate, x.dtype), tf.zeros([], x.dtype))


class RootMeanSquareNorm(keras.layers.Layer):
    """Scale every position to unit root mean square, in float32; half a layer norm's operations."""

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.gain = self.add_weight(
            shape=(shape[-1],), initializer="ones", name="gain", autocast=False
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        wide = tf.cast(x, tf.float32)
        scale = tf.math.rsqrt(tf.reduce_mean(tf.square(wide), axis=-1, keepdims=True) + 1e-6)
        return tf.cast(wide * scale * tf.convert_to_tensor(self.gain), x.dtype)


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
        self._condition = keras.layers.Dense(channels)
        self._out = keras.layers.Dense(channels) if expansion else None
        self._dropout = StatelessDropout(dropout, salt)

    def call(
        self,
        x: tf.Tensor,
        is_real: tf.Tensor,
        condition: tf.Tensor,
        step: tf.Tensor | int,
        training: bool = False,
    ) -> tf.Tensor:
        """x (batch, positions, channels), is_real (batch, positions, 1) -> like x"""
        real = tf.cast(is_real, x.dtype)
        hidden = tf.nn.relu(self._norm(x) + self._condition(condition)[:, tf.newaxis]) * real
        hidden = self._conv(hidden)
        hidden = self._dropout(hidden, step, training=training)
        if self._out is not None:
            hidden = self._out(tf.nn.relu(hidden))
        return x + hidden


class Predictor(keras.layers.Layer):
    """Small stack over symbols that predicts `outputs` numbers at each of them, in float32."""

    def __init__(
        self, channels: int, outputs: int, dropout: float, salt: int, first_guess: float = 0.0
    ):
        super().__init__()
        self._conv_1 = keras.layers.Conv1D(channels, 3, padding="same")
        self._condition = keras.layers.Dense(channels, use_bias=False)
        self._norm_1 = RootMeanSquareNorm()
        self._conv_2 = keras.layers.Conv1D(channels, 3, padding="same")
        self._norm_2 = RootMeanSquareNorm()
        self._dropout = StatelessDropout(dropout, salt)
        guess = keras.initializers.Constant(first_guess)
        self.head = keras.layers.Dense(outputs, dtype="float32", bias_initializer=guess)

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
