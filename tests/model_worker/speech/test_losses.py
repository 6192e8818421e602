"""What the parts of the loss pull towards."""

import numpy as np
import pytest
import tensorflow as tf

from model_worker.speech import losses


def outputs_and_batch(durations, log_durations):
    """One row without mel errors or prosody errors, of symbols with these durations."""
    durations = np.asarray(durations, np.int32)
    frames, symbols = int(durations.sum()), len(durations)
    nothing, prosody = tf.zeros([1, frames, 80]), tf.zeros([1, symbols, 2])
    outputs = {
        "mel": nothing,
        "prior_mel": nothing,
        "target_mel": nothing,
        "log_durations": tf.reshape(log_durations, [1, symbols]),
        "durations": tf.constant(durations[np.newaxis]),
        "prosody": prosody,
        "target_prosody": prosody,
        "has_pitch": tf.ones([1, symbols]),
    }
    batch = {
        "weight": tf.ones([1]),
        "symbol_lengths": tf.constant([symbols]),
        "mel_lengths": tf.constant([frames]),
    }
    return outputs, batch


def duration_loss(durations, log_durations) -> tf.Tensor:
    return losses.loss_parts(*outputs_and_batch(durations, log_durations))["duration"]


def test_the_best_guess_for_symbols_of_one_kind_is_their_mean_duration():
    durations = [2, 3, 4, 20, 1, 12]

    def loss(guess: float) -> float:
        return float(duration_loss(durations, tf.fill([6], tf.math.log(guess))))

    mean = float(np.mean(durations))
    assert loss(mean) < loss(mean * 1.02)
    assert loss(mean) < loss(mean / 1.02)


def test_durations_that_are_right_cost_nothing_and_others_about_their_squared_log_ratio():
    durations = [3, 5, 8]
    exact = tf.math.log(tf.constant(durations, tf.float32))
    assert float(duration_loss(durations, exact)) == pytest.approx(0.0, abs=1e-6)
    doubled, halved = (float(duration_loss(durations, exact + d)) for d in (-0.1, 0.1))
    assert doubled == pytest.approx(halved, rel=0.1)


def test_a_loss_has_the_parts_that_are_promised():
    outputs, batch = outputs_and_batch([2, 2], tf.zeros([2]))
    assert tuple(losses.loss_parts(outputs, batch)) == losses.PARTS
    assert float(losses.num_frames(batch)) == 4.0
