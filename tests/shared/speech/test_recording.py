"""Samples read the shorter way are those of libsndfile, bit for bit."""

import numpy as np
import pytest
import soundfile

from shared.speech.recording import as_float, peak_of, read_stored

KINDS = [
    ("wav", "PCM_16"), ("flac", "PCM_16"), ("aiff", "PCM_16"), ("wav", "PCM_24"),
    ("flac", "PCM_24"), ("wav", "PCM_U8"), ("wav", "FLOAT"), ("wav", "ULAW"), ("ogg", "VORBIS"),
]  # fmt: skip


@pytest.mark.parametrize(("suffix", "subtype"), KINDS)
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("as_it_is", [True, False])
def test_every_sample_is_libsndfile_s(tmp_path, suffix, subtype, channels, as_it_is):
    path = tmp_path / f"clip.{suffix}"
    samples = np.random.default_rng(1).uniform(-1, 1, (5_000, channels))
    samples[:3] = [[1.0] * channels, [-1.0] * channels, [0.0] * channels]
    soundfile.write(path, samples, 22_050, subtype)
    expected, _ = soundfile.read(path, dtype="float32", always_2d=True)
    with soundfile.SoundFile(path) as file:
        stored = [read_stored(file, 3_000, as_it_is) for _ in range(3)]
    pieces = [as_float(piece) for piece in stored]
    assert [len(piece) for piece in pieces] == [3_000, 2_000, 0]
    found = np.concatenate(pieces)
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)
    assert peak_of(np.concatenate(stored)) == np.abs(expected).max()


@pytest.mark.parametrize("scale", [1.0, 0.95, 1.7, 31.25, 9.5e4])
def test_scaling_stored_samples_is_scaling_the_floats(scale):
    stored = np.arange(-32_768, 32_768, dtype=np.int16)
    floats = stored.astype(np.float32) / 32_768
    np.testing.assert_array_equal(as_float(stored, scale), floats * np.float32(scale))
    expected = floats * np.float32(scale)
    np.testing.assert_array_equal(as_float(floats, scale), expected)


def test_the_lowest_sample_is_a_peak_too():
    assert peak_of(np.array([3, -32_768, 5], np.int16)) == 1.0
    assert peak_of(np.array([0.5, np.nan], np.float32)) != peak_of(np.array([0.5], np.float32))
    assert peak_of(np.zeros(0, np.int16)) == 0.0
