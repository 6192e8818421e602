"""The layers that are written for few operations compute what the plain ones would."""

import keras
import numpy as np
import tensorflow as tf

from model_worker.speech.network.harmonics import RIPPLE_BINS, ripples
from model_worker.speech.network.layers import Dense, RootMeanSquareNorm, StatelessDropout


def plain_norm(x, gain):
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), axis=-1, keepdims=True) + 1e-6) * gain


def plain_active(x, gain, condition, is_real):
    return tf.nn.relu(plain_norm(x, gain) + condition[:, tf.newaxis]) * is_real


def values_and_gradients(function, inputs, upstream):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = function(*inputs)
        loss = tf.reduce_sum(y * upstream)
    return [each.numpy() for each in (y, *tape.gradient(loss, inputs))]


def test_the_gradients_of_the_norm_are_those_of_its_definition():
    random = np.random.default_rng(1)
    x = tf.constant(random.normal(0, 3, size=(2, 5, 12)), tf.float32)
    x = tf.concat([x, tf.zeros([2, 1, 12])], axis=1)  # padding
    upstream = tf.constant(random.normal(size=x.shape), tf.float32)
    is_real = tf.constant([[1.0] * 5 + [0.0], [1.0] * 3 + [0.0] * 3])[:, :, tf.newaxis]
    norm = RootMeanSquareNorm()
    norm.build(x.shape)
    norm.gain.assign(random.normal(size=12))
    gain = norm.gain.value
    condition = tf.constant(random.normal(size=(2, 12)), tf.float32)
    for mine, plain, of in (
        (lambda x, gain: norm(x), plain_norm, [x, gain]),
        (
            lambda x, gain, condition: norm(x, condition, is_real),
            lambda x, gain, condition: plain_active(x, gain, condition, is_real),
            [x, gain, condition],
        ),
    ):
        found = values_and_gradients(mine, of, upstream)
        expected = values_and_gradients(plain, of, upstream)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_norm_keeps_halves_and_computes_in_float32():
    norm = RootMeanSquareNorm(dtype="mixed_float16")
    x = tf.constant(np.full((1, 2, 4), 3e3), tf.float16)  # whose square float16 does not hold
    assert norm(x).dtype == tf.float16
    np.testing.assert_allclose(norm(x).numpy(), 1.0, rtol=1e-3)


def test_dense_of_positions_is_keras_own():
    x = np.random.default_rng(2).normal(size=(3, 7, 5)).astype(np.float32)
    keras.utils.set_random_seed(1)
    plain = keras.layers.Dense(4)(x)
    keras.utils.set_random_seed(1)
    layer = Dense(4)
    any_size = tf.function(layer, input_signature=[tf.TensorSpec([None, None, 5])], autograph=False)
    np.testing.assert_array_equal(any_size(x).numpy(), plain.numpy())
    np.testing.assert_array_equal(layer(x[:, 0]).numpy(), any_size(x)[:, 0].numpy())


def test_dropout_is_that_of_its_step_and_keeps_the_mean():
    dropout, x = StatelessDropout(0.25, 3), tf.ones([4, 50, 40])
    found = dropout(x, tf.constant(7), training=True).numpy()
    drawn = tf.random.stateless_uniform(x.shape, [7, 3]).numpy()
    np.testing.assert_array_equal(found != 0, drawn >= 0.25)
    np.testing.assert_allclose(found[found != 0], 1 / 0.75)
    assert not np.array_equal(found, dropout(x, tf.constant(8), training=True).numpy())
    assert dropout(x, tf.constant(7)) is x


def test_pitches_beyond_the_table_and_what_is_no_number_have_ripples_too():
    log_pitch = np.log([[50.0, 600.0, 20.0, 5_000.0]]).astype(np.float32)
    log_pitch = np.concatenate([log_pitch, [[np.nan, -np.inf]]], axis=1, dtype=np.float32)
    found = ripples(tf.constant(log_pitch)).numpy()[0]
    assert found.shape == (6, RIPPLE_BINS)
    for place, same_as in ((2, 0), (3, 1), (4, 0), (5, 0)):
        np.testing.assert_array_equal(found[place], found[same_as])
