"""Mels become waveforms whose mels they are."""

import librosa
import numpy as np
import pytest
import tensorflow as tf

from model_worker.vocoder import griffin_lim
from shared.speech import mel as mel_definition

BASIS = librosa.filters.mel(sr=22050, n_fft=1024, n_mels=80, fmin=0, fmax=8000)


def tone(seconds=0.8):
    """A buzz with a moving pitch: rich enough to resemble speech."""
    time = np.arange(int(seconds * 22050)) / 22050
    phase = 2 * np.pi * (120 * time + 20 * time**2)
    return sum(0.2 / k * np.sin(k * phase) for k in range(1, 20)).astype(np.float32)


@pytest.fixture(scope="module")
def mel():
    return mel_definition.log_mel(tone(), BASIS)


def test_magnitudes_have_the_mel_they_were_made_from(mel):
    magnitudes = griffin_lim.magnitudes_of_mel(tf.constant(mel[np.newaxis]), BASIS).numpy()[0]
    assert magnitudes.shape == (len(mel), 513)
    assert magnitudes.min() >= 0
    again = np.log(np.maximum(magnitudes @ BASIS.T, 1e-5))
    assert np.abs(again - mel).mean() < 0.1


def test_the_waveform_has_the_mel_it_was_made_from(mel):
    audio = griffin_lim.waveform_of_mel(tf.constant(mel[np.newaxis]), BASIS).numpy()[0]
    assert audio.shape == (len(mel) * 256,)
    assert np.abs(audio).max() <= 1.0
    again = mel_definition.log_mel(audio, BASIS)
    loud = mel > mel.max() - 5.0
    assert np.abs(again - mel)[loud].mean() < 0.25


def test_the_same_mel_gives_the_same_samples(mel):
    batch = tf.constant(mel[np.newaxis])
    first = griffin_lim.waveform_of_mel(batch, BASIS, iterations=4).numpy()
    np.testing.assert_array_equal(
        first, griffin_lim.waveform_of_mel(batch, BASIS, iterations=4).numpy()
    )


def test_padding_frames_come_out_silent(mel):
    padded = np.concatenate([mel, np.full((40, 80), np.log(1e-5), np.float32)])
    audio = griffin_lim.waveform_of_mel(tf.constant(padded[np.newaxis]), BASIS).numpy()[0]
    assert np.abs(audio[(len(mel) + 4) * 256 :]).max() < 1e-3
