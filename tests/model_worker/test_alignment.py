"""The alignment search against one that tries every path."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from model_worker import alignment


def best_by_trying_all(scores: np.ndarray) -> tuple[float, list[int]]:
    """The best score and durations of scores (frames, symbols) over every monotonic path."""
    frames, symbols = scores.shape
    best = (-np.inf, [])
    for cuts in itertools.combinations(range(1, frames), symbols - 1):
        edges = [0, *cuts, frames]
        total = sum(scores[a:b, i].sum() for i, (a, b) in enumerate(itertools.pairwise(edges)))
        best = max(best, (total, [b - a for a, b in itertools.pairwise(edges)]))
    return best


def test_the_path_is_the_best_of_all_paths():
    random = np.random.default_rng(3)
    lengths = [(9, 4), (7, 1), (5, 5), (9, 3)]  # frames, symbols
    scores = random.normal(size=(len(lengths), 9, 5)).astype(np.float32)
    frames, symbols = (np.array(each, np.int32) for each in zip(*lengths, strict=True))
    found = alignment.monotonic_path_durations(
        tf.constant(scores), tf.constant(symbols), tf.constant(frames)
    ).numpy()
    for row, (num_frames, num_symbols) in enumerate(lengths):
        _, expected = best_by_trying_all(scores[row, :num_frames, :num_symbols])
        assert found[row, :num_symbols].tolist() == expected
        assert found[row, num_symbols:].sum() == 0


def test_a_path_of_durations_gives_every_frame_one_symbol():
    durations = tf.constant([[2, 1, 3, 0], [1, 0, 4, 1]])
    path = alignment.path_of_durations(durations, 8).numpy()
    assert path.shape == (2, 8, 4)
    np.testing.assert_array_equal(path.sum(axis=1), durations)
    np.testing.assert_array_equal(path.sum(axis=2), [[1] * 6 + [0] * 2] * 2)
    np.testing.assert_array_equal(path[0].argmax(axis=1)[:6], [0, 0, 1, 2, 2, 2])


def test_means_count_only_what_is_counted():
    path = alignment.path_of_durations(tf.constant([[2, 3]]), 5)
    values = tf.constant([[1.0, 3.0, 10.0, 20.0, 90.0]])
    counted = tf.constant([[1.0, 1.0, 1.0, 1.0, 0.0]])
    means = alignment.mean_over_symbols(values, path, counted).numpy()
    assert means[0].tolist() == pytest.approx([2.0, 15.0])
    nothing = alignment.mean_over_symbols(values, path, tf.zeros_like(counted)).numpy()
    assert nothing[0].tolist() == [0.0, 0.0]
