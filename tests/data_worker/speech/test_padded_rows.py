"""A row holds an utterance with what its frames need around it, and nothing of others."""

import numpy as np
import pytest

from data_worker.speech.padded_rows import fill_row, pad_length
from shared.speech.mel import reflected


def row_of(audio, num_frames, first_frame=0):
    """A row for the feature graph, on its own."""
    row = np.empty(pad_length(num_frames), np.float32)
    fill_row(row, audio, first_frame)
    return row


@pytest.mark.parametrize("num_samples", [1, 100, 256, 300, 385, 1_000, 2_560, 2_700])
def test_a_row_holds_the_mirrored_utterance_up_to_its_last_whole_frame(num_samples):
    samples = np.random.default_rng(1).normal(0, 0.1, num_samples).astype(np.float32)
    row = row_of(samples, 20)
    used = pad_length(num_samples // 256) if num_samples >= 256 else 0
    assert row.shape == (pad_length(20),) == (20 * 256 + 768,)
    np.testing.assert_array_equal(row[:used], reflected(samples)[:used])
    assert not row[used:].any()


def test_a_row_can_begin_inside_the_utterance():
    samples = np.random.default_rng(1).normal(0, 0.1, 10_000).astype(np.float32)
    whole = row_of(samples, 39)
    part = row_of(samples, 10, first_frame=7)
    np.testing.assert_array_equal(part, whole[7 * 256 : 7 * 256 + pad_length(10)])
