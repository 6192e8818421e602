"""What is measured of a sample of the speech."""

import numpy as np
import pytest

from data_worker.speech import statistics
from data_worker.speech.index_content import mel_basis

RATE = 22_050


def test_the_mel_basis_has_slaneys_filters_of_area_one():
    basis = mel_basis()
    assert basis.dtype == np.float32 and basis.shape == (80, 513)
    assert not np.signbit(basis).any()
    bins_hz = np.fft.rfftfreq(1024, 1 / RATE)
    assert bins_hz[basis[-1].nonzero()[0][-1]] <= 8_000
    peaks_hz = bins_hz[basis.argmax(axis=1)]
    assert (np.diff(peaks_hz) >= 0).all()
    np.testing.assert_allclose((basis[60:] * bins_hz[1]).sum(axis=1), 1.0, rtol=0.02)


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
