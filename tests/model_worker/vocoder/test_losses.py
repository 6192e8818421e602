"""The losses hear what an ear hears: not the phase, and not the fillers of a batch."""

import librosa
import numpy as np
import tensorflow as tf

from model_worker.vocoder.losses import PARTS, loss_parts

BASIS = tf.constant(librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000))
NOISE = np.random.default_rng(0).normal(0, 0.1, (2, 8192)).astype(np.float32)


def parts_of(made, true, weight=(1.0, 1.0)):
    parts = loss_parts(tf.constant(made), tf.constant(true), tf.constant(weight), BASIS)
    return {name: float(part) for name, part in parts.items()}


def test_what_is_equal_but_for_its_sign_costs_nothing():
    parts = parts_of(-NOISE, NOISE)
    assert parts.keys() == set(PARTS)
    assert all(part < 1e-3 for part in parts.values())


def test_what_is_twice_as_loud_costs_the_logarithm_of_two():
    parts = parts_of(2 * NOISE, NOISE)
    np.testing.assert_allclose(parts["mel"], 2 * np.log(2), rtol=0.01)
    np.testing.assert_allclose(parts["magnitude"], 2 * np.log(2), rtol=0.01)


def test_a_row_of_no_weight_costs_nothing():
    made = NOISE * np.array([[1.0], [5.0]], np.float32)
    assert all(part < 1e-3 for part in parts_of(made, NOISE, (1.0, 0.0)).values())
    assert parts_of(made, NOISE, (0.0, 1.0))["mel"] > 1.0


def test_silence_has_a_gradient():
    made = tf.zeros([1, 4096])
    with tf.GradientTape() as tape:
        tape.watch(made)
        parts = loss_parts(made, tf.zeros([1, 4096]), tf.ones(1), BASIS)
        loss = tf.add_n(list(parts.values()))
    assert np.isfinite(tape.gradient(loss, made).numpy()).all()
