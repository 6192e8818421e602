"""A segment is what the recording holds there, as loud as its gain says, and so is its mel."""

import librosa
import numpy as np
import pytest

from data_worker.vocoder.segments import QUIETEST_GAIN, segment_of, without_gaps
from shared.speech.mel import HOP, LOG_FLOOR, log_mel
from shared.vocoder.batch import ARRAYS, FULL_SCALE, SEGMENT_FRAMES

BASIS = librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)


def features_of(num_frames, seed=0):
    """A clip that is loud, then silent, then loud."""
    random = np.random.default_rng(seed)
    audio = random.normal(0, 0.1, num_frames * HOP).astype(np.float32)
    audio[len(audio) // 3 : len(audio) // 2] *= 1e-6
    return audio, {
        "audio": np.rint(audio * FULL_SCALE).astype(np.int16),
        "mel": log_mel(audio, BASIS),
        "log_f0": np.linspace(4.5, 5.5, num_frames).astype(np.float32),
    }


@pytest.mark.parametrize(("place", "level"), [(0.0, 0.0), (0.4, 0.5), (0.999999, 0.999)])
def test_the_mel_is_that_of_the_audio_times_the_gain(place, level):
    audio, features = features_of(100)
    segment = segment_of(features, place, level)
    first = round(place * (100 - SEGMENT_FRAMES))
    frames = slice(first, first + SEGMENT_FRAMES)
    assert QUIETEST_GAIN <= segment["gain"] <= 1.0
    expected = log_mel(audio * segment["gain"], BASIS)[frames]
    np.testing.assert_allclose(segment["mel"], expected, atol=2e-4)
    assert segment["mel"].min() == np.float32(np.log(LOG_FLOOR)) or place != 0.4
    samples = slice(first * HOP, (first + SEGMENT_FRAMES) * HOP)
    np.testing.assert_array_equal(segment["audio"], features["audio"][samples])
    np.testing.assert_array_equal(segment["log_f0"], features["log_f0"][frames])


def test_a_recording_shorter_than_a_segment_is_followed_by_silence():
    _, features = features_of(5)
    segment = segment_of(features, 0.9, 1.0)
    for name, array in ARRAYS.items():
        assert np.shape(segment[name]) == array.dimensions[:1] + array.dimensions[1:]
    assert not segment["audio"][5 * HOP :].any()
    np.testing.assert_array_equal(segment["mel"][5:], np.float32(np.log(LOG_FLOOR)))
    np.testing.assert_array_equal(segment["log_f0"][4:], segment["log_f0"][4])


def test_every_place_of_a_recording_can_be_chosen():
    _, features = features_of(SEGMENT_FRAMES + 3)
    found = {
        float(segment_of(features, place, 1.0)["log_f0"][0]) for place in np.linspace(0, 0.9999, 50)
    }
    assert found == set(features["log_f0"][:4].tolist())


def test_a_pitch_goes_straight_over_its_gaps_and_stands_still_at_the_ends():
    hertz = np.array([0, 100, 0, 0, 0, 200, 0], np.float32)
    log_f0 = without_gaps(hertz)
    np.testing.assert_allclose(
        log_f0, np.log(100) + np.log(2) * np.array([0, 0, 0.25, 0.5, 0.75, 1, 1]), rtol=1e-6
    )
    np.testing.assert_array_equal(without_gaps(np.zeros(3, np.float32)), np.full(3, 5.0))
