"""Samples read the shorter way are those of libsndfile, bit for bit."""

import numpy as np
import pytest
import soundfile

from data_worker.pcm import read_samples

KINDS = [
    ("wav", "PCM_16"), ("flac", "PCM_16"), ("aiff", "PCM_16"), ("wav", "PCM_24"),
    ("flac", "PCM_24"), ("wav", "PCM_U8"), ("wav", "FLOAT"), ("wav", "ULAW"), ("ogg", "VORBIS"),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "subtype"), KINDS)
@pytest.mark.parametrize("channels", [1, 2])
def test_every_sample_is_libsndfile_s(tmp_path, suffix, subtype, channels):
    path = tmp_path / f"clip.{suffix}"
    samples = np.random.default_rng(1).uniform(-1, 1, (5_000, channels))
    samples[:3] = [[1.0] * channels, [-1.0] * channels, [0.0] * channels]
    soundfile.write(path, samples, 22_050, subtype)
    expected, _ = soundfile.read(path, dtype="float32", always_2d=True)
    with soundfile.SoundFile(path) as file:
        pieces = [read_samples(file, 3_000), read_samples(file, 3_000), read_samples(file, 3_000)]
    assert [len(piece) for piece in pieces] == [3_000, 2_000, 0]
    found = np.concatenate(pieces)
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)
