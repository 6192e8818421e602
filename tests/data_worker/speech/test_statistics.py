"""What is measured of a sample of the speech."""

import numpy as np
import pytest

from data_worker.speech import statistics

RATE = 22_050


def test_the_mel_basis_is_librosas():
    import librosa

    expected = librosa.filters.mel(sr=22050, n_fft=1024, n_mels=80, fmin=0, fmax=8000)
    np.testing.assert_allclose(statistics.slaney_mel_basis(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("hertz", [80.0, 120.0, 210.0, 400.0])
def test_pitch_of_a_voice_like_tone_is_found(hertz):
    time_s = np.arange(RATE) / RATE
    audio = sum(np.sin(2 * np.pi * hertz * k * time_s) / k for k in range(1, 6)).astype(np.float32)
    found = statistics.fundamental_hz(audio)
    assert (found > 0).all()
    np.testing.assert_allclose(found, hertz, rtol=0.02)


def test_noise_and_short_clips_have_no_pitch():
    noisy = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)
    assert (statistics.fundamental_hz(noisy) > 0).mean() < 0.1
    assert len(statistics.fundamental_hz(noisy[:100])) == 0
    assert statistics.combine([None]).pitch_std > 0
