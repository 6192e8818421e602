"""The update of inner matrices, against its definition."""

import numpy as np
import pytest
import tensorflow as tf

from model_worker.training.orthogonal_update import MOMENTUM, orthogonal_updates, orthogonalised


def orthogonal_update(momentum, gradient):
    (step,) = orthogonal_updates([momentum], [gradient])
    return step


@pytest.mark.parametrize("shape", [(24, 24), (16, 64), (64, 16)], ids=str)
def test_directions_stay_and_singular_values_come_near_one(shape):
    matrix = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    matrix *= np.geomspace(1, 30, shape[1], dtype=np.float32)  # one direction dominates
    found = orthogonalised(tf.constant(matrix)).numpy()
    left, strengths, right = np.linalg.svd(matrix, full_matrices=False)
    inner = left.T @ found @ right.T
    well_above_noise = strengths > 0.02 * np.linalg.norm(matrix)
    assert well_above_noise.sum() >= 8
    np.testing.assert_allclose(np.diag(inner)[well_above_noise], 1.0, atol=0.35)
    np.testing.assert_allclose(inner - np.diag(np.diag(inner)), 0.0, atol=2e-3)


def test_a_gradient_of_zero_moves_nothing():
    momentum = tf.Variable(tf.zeros([3, 8, 16]))
    step = orthogonal_update(momentum, tf.zeros([3, 8, 16]))
    np.testing.assert_array_equal(step.numpy(), 0.0)


def test_the_update_follows_the_momentum_and_has_adams_size():
    random = np.random.default_rng(2)
    first, second = random.normal(size=(2, 3, 32, 48)).astype(np.float32)
    momentum = tf.Variable(tf.zeros([3, 32, 48]))
    orthogonal_update(momentum, tf.constant(first))
    step = orthogonal_update(momentum, tf.constant(second)).numpy()
    expected = (1 - MOMENTUM) * (MOMENTUM * first + second)
    np.testing.assert_allclose(momentum.numpy(), expected, rtol=1e-5, atol=1e-6)
    ahead = MOMENTUM * expected + (1 - MOMENTUM) * second
    assert np.sum(step * ahead) > 0.8 * np.linalg.norm(step) * np.linalg.norm(ahead)
    # Adam's entries have a root mean square of about 0.2; a matrix of few columns comes close.
    assert 0.08 < np.sqrt(np.mean(np.square(step))) < 0.3


def test_the_scale_of_the_gradient_does_not_matter():
    gradient = np.random.default_rng(3).normal(size=(20, 30)).astype(np.float32)
    steps = [
        orthogonal_update(tf.Variable(tf.zeros([20, 30])), tf.constant(gradient * scale)).numpy()
        for scale in (1.0, 1e-4)
    ]
    np.testing.assert_allclose(steps[0], steps[1], atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 8, 40), (40, 24)], ids=str)
def test_kernels_that_move_together_move_as_each_would_alone(shape):
    gradients = np.random.default_rng(4).normal(size=(5, *shape)).astype(np.float32)
    gradients[3] = 0.0
    together = [tf.Variable(tf.ones(shape)) for _ in gradients]
    alone = [tf.Variable(tf.ones(shape)) for _ in gradients]
    steps = orthogonal_updates(together, [tf.constant(gradient) for gradient in gradients])
    for found, gradient, momentum, one in zip(steps, gradients, together, alone, strict=True):
        expected = orthogonal_update(one, tf.constant(gradient))
        np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-5)
        np.testing.assert_array_equal(momentum.numpy(), one.numpy())
