"""The peak of a traced graph, where a person can count it."""

import pytest
import tensorflow as tf

from model_worker.checks.graph_memory import peak_bytes

SQUARE = 100 * 100 * 4


def peak_of(work, *shapes):
    specs = [tf.TensorSpec(shape, tf.float32) for shape in shapes or [(100, 100)]]
    return peak_bytes(tf.function(work, autograph=False).get_concrete_function(*specs).graph)


def test_results_are_held_from_their_making_to_their_last_use():
    def three_at_once(x):
        a = tf.matmul(x, x)
        b = tf.matmul(a, a)
        return tf.matmul(b, a)

    def two_at_once(x):
        for _ in range(5):
            x = tf.matmul(x, x)
        return x

    assert peak_of(three_at_once) == 3 * SQUARE
    assert peak_of(two_at_once) == 2 * SQUARE


def test_what_only_looks_at_another_takes_nothing_and_what_replaces_it_no_more():
    assert peak_of(lambda x: tf.reshape(tf.matmul(x, x), [-1])) == SQUARE
    assert peak_of(lambda x: tf.nn.relu(tf.matmul(x, x))) == SQUARE

    def kept(x):
        a = tf.matmul(x, x)
        return a, tf.nn.relu(a)

    assert peak_of(kept) == 2 * SQUARE


def test_what_nobody_needs_is_not_computed():
    def with_a_dead_end(x):
        tf.matmul(x, x) + 1.0
        return tf.matmul(x, x)

    assert peak_of(with_a_dead_end) == SQUARE


def test_a_backward_pass_holds_what_the_forward_pass_made():
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(8):
                y = tf.matmul(y, x)
            loss = tf.reduce_sum(y)
        return tape.gradient(loss, x)

    assert 7 * SQUARE <= peak_of(gradient) <= 13 * SQUARE


@pytest.mark.parametrize("kind", ["call", "cond", "while"])
def test_what_a_called_function_holds_counts_while_it_runs(kind):
    def inside(x):
        return tf.matmul(tf.matmul(x, x), tf.matmul(x, x))

    works = {
        "call": lambda x: tf.function(inside, autograph=False)(x),
        "cond": lambda x: tf.cond(x[0, 0] > 0, lambda: inside(x), lambda: x),
        "while": lambda x: tf.while_loop(lambda y: y[0, 0] > 0, lambda y: (inside(y),), (x,))[0],
    }
    assert 3 * SQUARE <= peak_of(works[kind]) <= 4 * SQUARE
