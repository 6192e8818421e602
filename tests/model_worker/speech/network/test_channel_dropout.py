"""Nothing is dropped while examples are news, and more with every doubling of the passes after that."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from model_worker.speech.network.channel_dropout import ChannelDropout, rate_after

PASS = 10  # steps


def factors(step, rows=64, dtype=tf.float32):
    dropout = ChannelDropout((32, 48), steps_per_pass=PASS)
    return [each.numpy() for each in dropout.factors(tf.constant(rows), tf.constant(step), dtype)]


def test_the_rate_never_falls_and_has_an_end():
    rates = rate_after(tf.range(2000.0)).numpy().tolist()
    assert rates[:9] == [0.0] * 9 and rates[16] == pytest.approx(0.1) and rates[64] > 0.29
    assert all(a <= b for a, b in itertools.pairwise(rates)) and rates[-1] == 0.5


def test_the_first_passes_are_those_of_a_model_without_any():
    for step in (0, 1, 8 * PASS):
        for each in factors(step):
            np.testing.assert_array_equal(each, 1.0)


def test_as_many_channels_are_dropped_as_the_rate_says_and_the_others_make_up_for_them():
    for passes in (16, 64, 1000):
        drawn = np.concatenate([each.ravel() for each in factors(passes * PASS)])
        rate = float(rate_after(tf.constant(float(passes))))
        assert abs(np.mean(drawn == 0) - rate) < 0.02
        np.testing.assert_allclose(drawn[drawn > 0], 1 / (1 - rate), rtol=1e-5)


def test_each_block_has_its_own_and_they_follow_from_the_step():
    encoder, decoder = factors(640)
    assert encoder.shape == (64, 1, 32) and decoder.shape == (64, 1, 48)
    assert not np.array_equal(encoder, decoder[..., :32])
    for again, before in zip(factors(640), (encoder, decoder), strict=True):
        np.testing.assert_array_equal(again, before)
    assert not np.array_equal(factors(641)[0], encoder)
    assert factors(640, dtype=tf.float16)[0].dtype == np.float16


def test_a_model_that_is_not_trained_drops_nothing():
    assert ChannelDropout((3, 4)).factors(tf.constant(2), tf.constant(1), tf.float32) == [None] * 2
