"""The alignment search and what is computed from its path."""

import numpy as np
import pytest
import tensorflow as tf

from model_worker.speech.network import alignment


def best_durations(scores):
    """The search, written plainly. scores (frames, symbols)"""
    num_frames, num_symbols = scores.shape
    best = np.full((num_frames, num_symbols), -np.inf)
    best[0, 0] = scores[0, 0]
    for frame in range(1, num_frames):
        for symbol in range(num_symbols):
            stepped = best[frame - 1, symbol - 1] if symbol else -np.inf
            best[frame, symbol] = max(best[frame - 1, symbol], stepped) + scores[frame, symbol]
    durations, symbol = np.zeros(num_symbols, int), num_symbols - 1
    for frame in range(num_frames - 1, -1, -1):
        durations[symbol] += 1
        if frame and symbol and best[frame - 1, symbol - 1] > best[frame - 1, symbol]:
            symbol -= 1
    return durations


def search(scores, symbol_lengths, mel_lengths):
    found = alignment.monotonic_path_durations(
        tf.constant(scores, tf.float32),
        tf.constant(symbol_lengths, tf.int32),
        tf.constant(mel_lengths, tf.int32),
    )
    return found.numpy()


def test_the_search_finds_the_best_path_of_every_row_of_a_padded_batch():
    scores = np.random.default_rng(3).normal(size=(5, 40, 12)).astype(np.float32)
    symbol_lengths, mel_lengths = [12, 9, 1, 5, 7], [40, 30, 7, 5, 33]
    found = search(scores, symbol_lengths, mel_lengths)
    for row, (symbols, frames) in enumerate(zip(symbol_lengths, mel_lengths, strict=True)):
        np.testing.assert_array_equal(
            found[row, :symbols], best_durations(scores[row, :frames, :symbols])
        )
        assert found[row, symbols:].sum() == 0


@pytest.mark.parametrize("per_turn", [1, 8])
@pytest.mark.parametrize("num_frames", [1, 7, 40])
def test_the_path_is_the_same_in_turns_of_any_length(per_turn, num_frames):
    rng = np.random.default_rng(7)
    scores = tf.constant(rng.normal(0, 5, size=(4, num_frames, 6)), tf.float32)
    lengths = tf.constant([1, 6, 3, 6]), tf.constant([1, num_frames, num_frames, 1])
    in_turns = tf.function(alignment.durations_in_turns, jit_compile=True, autograph=False)
    found = in_turns(scores, *lengths, per_turn)
    np.testing.assert_array_equal(found, search(scores.numpy(), *lengths))


def test_padding_scores_do_not_change_the_path():
    scores = np.random.default_rng(4).normal(size=(2, 30, 8)).astype(np.float32)
    spoilt = scores.copy()
    spoilt[0, 20:], spoilt[0, :, 6:] = 1e6, 1e6
    before, after = search(scores, [6, 8], [20, 30]), search(spoilt, [6, 8], [20, 30])
    np.testing.assert_array_equal(before, after)


def test_an_utterance_with_fewer_frames_than_symbols_still_gets_all_its_frames():
    found = search(np.zeros((1, 6, 9)), [9], [4])
    assert found.sum() == 4
    assert found.min() >= 0


def test_the_path_of_durations_gives_every_frame_to_its_symbol():
    path = alignment.path_of_durations(tf.constant([[2, 0, 3, 0]]), 6).numpy()[0]
    np.testing.assert_array_equal(path.sum(axis=0), [2, 0, 3, 0])
    np.testing.assert_array_equal(path.argmax(axis=1)[:5], [0, 0, 2, 2, 2])
    assert path[5].sum() == 0


def test_alignment_recovers_known_durations_from_noisy_frames():
    rng = np.random.default_rng(5)
    prior = rng.normal(size=(1, 6, 80)).astype(np.float32)
    durations = np.array([[3, 1, 7, 2, 5, 4]])
    mel = np.repeat(prior[0], durations[0], axis=0)[np.newaxis]
    mel = (mel + 0.3 * rng.normal(size=mel.shape)).astype(np.float32)
    found = alignment.align(
        tf.constant(prior), tf.constant(mel), tf.constant([6]), tf.constant([22]), 0.0
    )
    np.testing.assert_array_equal(found.numpy(), durations)


def test_without_any_knowledge_the_path_reads_at_constant_speed():
    nothing = tf.zeros([1, 5, 80])
    found = alignment.align(
        nothing, tf.zeros([1, 40, 80]), tf.constant([5]), tf.constant([40]), 80.0
    )
    np.testing.assert_allclose(found.numpy(), [[8, 8, 8, 8, 8]], atol=1)


def test_means_over_symbols_count_only_the_frames_that_count():
    path = alignment.path_of_durations(tf.constant([[2, 2, 1]]), 5)
    values = tf.constant([[1.0, 3.0, 5.0, 7.0, 9.0]])
    counted = tf.constant([[1.0, 1.0, 0.0, 1.0, 0.0]])
    means = alignment.mean_over_symbols(values, path, counted).numpy()
    np.testing.assert_allclose(means, [[2.0, 7.0, 0.0]])


def test_a_contour_passes_through_each_symbols_value_and_meets_halfway():
    durations = tf.constant([[4, 4, 0]])
    path = alignment.path_of_durations(durations, 10)
    line = alignment.contour(tf.constant([[1.0, 3.0, 99.0]]), durations, path).numpy()[0]
    assert np.all(np.diff(line[:6]) >= 0)
    assert line[3] == pytest.approx(1.75)
    assert line[4] == pytest.approx(2.25)
    np.testing.assert_allclose(line[6:8], 3.0)
    np.testing.assert_allclose(line[8:], 0.0)


def test_the_search_is_the_same_inside_a_compiled_step():
    scores = tf.constant(np.random.default_rng(6).normal(size=(2, 20, 7)), tf.float32)
    lengths = tf.constant([7, 4]), tf.constant([20, 11])
    compiled = tf.function(
        lambda s, a, b: alignment.monotonic_path_durations(s, a, b), jit_compile=True
    )
    np.testing.assert_array_equal(
        compiled(scores, *lengths).numpy(),
        alignment.monotonic_path_durations(scores, *lengths).numpy(),
    )
