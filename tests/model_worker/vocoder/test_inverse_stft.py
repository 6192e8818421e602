"""The inverse transform undoes the transform of the mels, in operations that any runtime has."""

import numpy as np
import pytest
import tensorflow as tf

from model_worker.vocoder.inverse_stft import samples_of
from shared.speech.mel import FFT, HOP, PAD, hann_window


def spectra_of(samples):
    padded = np.pad(samples, PAD)
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP]
    return np.fft.rfft(frames * hann_window())


@pytest.mark.parametrize("num_frames", [4, 5, 33])
def test_the_spectra_of_samples_give_those_samples(num_frames):
    samples = np.random.default_rng(num_frames).normal(0, 0.3, num_frames * HOP)
    spectra = spectra_of(samples)
    assert len(spectra) == num_frames
    made = samples_of(
        tf.constant(spectra.real[None], tf.float32), tf.constant(spectra.imag[None], tf.float32)
    )[0].numpy()
    np.testing.assert_allclose(made, samples, atol=2e-6)


def test_rows_do_not_know_of_each_other():
    random = np.random.default_rng(1)
    real, imaginary = random.normal(size=(2, 3, 6, FFT // 2 + 1)).astype(np.float32)
    together = samples_of(tf.constant(real), tf.constant(imaginary)).numpy()
    for row in range(3):
        alone = samples_of(tf.constant(real[row : row + 1]), tf.constant(imaginary[row : row + 1]))
        np.testing.assert_allclose(alone[0], together[row], atol=1e-5)
