"""Momentum whose every direction counts the same: the update for the network's inner matrices.

A matrix's gradient is dominated by a few directions, and steps along it, Adam's too, learn the
others late. Here the momentum is replaced by the nearest matrix with all singular values near one
(Muon, Jordan et al. 2024), by a short iteration of matrix products. On this model it needs a third
of AdamW's steps for the same loss. Embeddings, output layers, norms and biases stay with AdamW.
"""

import math
from collections.abc import Sequence

import tensorflow as tf

MOMENTUM = 0.95
# The usual root mean square of an entry in Adam's updates (Moonlight, Liu et al. 2025).
_ADAMS_SIZE = 0.2
# x -> ax + bx³ + cx⁵, three times, takes every singular value from 0.01 to 1 into 1 ± 0.27, and
# smaller ones to 77 times themselves. Each is the polynomial with the smallest largest distance from
# one where the one before leaves the values (a linear programme). The usual 3.4445, -4.775, 2.0315
# needs five rounds for the same, and the products are a third of a small model's step.
_POLYNOMIALS = (
    (8.0934, -23.6204, 17.4462),
    (3.6366, -2.7219, 0.5365),
    (2.6613, -1.9772, 0.4526),
)
# Rounding must not push the largest singular value beyond one, where the polynomials rise steeply.
_BELOW_ONE = 1.02


def orthogonalised(matrices: tf.Tensor) -> tf.Tensor:
    """The same row and column directions, singular values near one.

    float32 (…, rows, columns) -> same

    The iteration x -> (a + b·xxᵀ + c·(xxᵀ)²)·x is carried out on the small square xxᵀ alone (xᵀx,
    from the right, where x is tall), and its product applied to x once: half the work for matrices
    four times as wide as high.
    """
    rows, columns = matrices.shape[-2:]
    is_tall = rows > columns
    strength = tf.norm(matrices, axis=[-2, -1], keepdims=True)
    x = matrices / (_BELOW_ONE * strength + 1e-12)
    square = tf.matmul(x, x, transpose_a=is_tall, transpose_b=not is_tall)
    identity = tf.eye(min(rows, columns))
    total = None
    for i, (a, b, c) in enumerate(_POLYNOMIALS):
        factor = a * identity + b * square + c * tf.matmul(square, square)
        total = factor if total is None else tf.matmul(factor, total)
        if i + 1 < len(_POLYNOMIALS):
            square = tf.matmul(factor, tf.matmul(square, factor))
    return tf.matmul(x, total) if is_tall else tf.matmul(total, x)


def matrix_shape(kernel: tf.Variable) -> tuple[int, int]:
    """A kernel as a matrix: the last axis is the layer's output, the others are its input."""
    return math.prod(kernel.shape[:-1]), kernel.shape[-1]


def orthogonal_updates(
    momenta: Sequence[tf.Variable], gradients: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """Advance momenta by gradients; the steps to subtract, times the learning rate.

    All are kernels that are matrices of one shape, and take the way together: to a GPU, a product
    of many small matrices is one thing to do.

    Args: momenta, gradients float32, any kernel shapes with the same `matrix_shape`.
    """
    rows, columns = matrix_shape(momenta[0])
    ahead = []
    for momentum, gradient in zip(momenta, gradients, strict=True):
        momentum.assign_add((1.0 - MOMENTUM) * (gradient - momentum))
        ahead.append(tf.reshape(gradient + MOMENTUM * (momentum - gradient), [rows, columns]))
    size = _ADAMS_SIZE * max(rows, columns) ** 0.5
    if len(ahead) == 1:
        found = [orthogonalised(ahead[0])]
    else:
        found = tf.unstack(orthogonalised(tf.stack(ahead)))
    return [
        tf.reshape(each, momentum.shape) * size
        for each, momentum in zip(found, momenta, strict=True)
    ]
