"""The reference mel is what librosa computes under the HiFi-GAN convention."""

import librosa
import numpy as np
import pytest

from shared.speech import mel

BASIS = librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)


def by_librosa(audio):
    padded = np.pad(audio.astype(np.float64), 384, mode="reflect")
    spectrum = librosa.stft(padded, n_fft=1024, hop_length=256, window="hann", center=False)
    magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-9)
    return magnitude.T, np.log(np.maximum(BASIS @ magnitude, 1e-5)).T


@pytest.mark.parametrize("num_samples", [512, 22_050, 25_600, 25_601, 25_855, 30_001])
def test_every_frame_equals_librosas(num_samples):
    audio = np.random.default_rng(0).normal(0, 0.1, num_samples).astype(np.float32)
    magnitude, expected = by_librosa(audio)
    found = mel.log_mel(audio, BASIS)
    assert found.dtype == np.float32
    assert found.shape == (num_samples // 256, 80) == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(mel.energy(audio), np.linalg.norm(magnitude, axis=1), rtol=1e-5)


@pytest.mark.parametrize("num_samples", [0, 1, 2, 255, 256, 300, 384, 385, 386])
def test_a_clip_shorter_than_the_mirror_has_its_frames_all_the_same(num_samples):
    audio = np.linspace(-0.5, 0.5, num_samples, dtype=np.float32)
    found = mel.log_mel(audio, BASIS)
    assert found.shape == (mel.frames_of(num_samples), 80)
    assert np.isfinite(found).all()
    assert mel.energy(audio).shape == (mel.frames_of(num_samples),)


def test_silence_lies_on_the_floor():
    found = mel.log_mel(np.zeros(4096, np.float32), BASIS)
    np.testing.assert_allclose(found, np.log(1e-5), atol=1e-6)


def test_resampled_lengths_are_whole_and_rounded_down():
    assert mel.resampled_length(48_000, 48_000) == 22_050
    assert mel.resampled_length(1, 44_100) == 0
    assert mel.resampled_length(16_001, 16_000) == 22_051
    assert mel.resampled_length(10**12, 22_050) == 10**12
