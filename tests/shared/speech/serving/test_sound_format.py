"""Samples become files that can be read again, whole or piece by piece."""

import io

import numpy as np
import pytest
import soundfile

from shared.speech.serving.sound_format import FORMATS, encoder_of

RATE = 22_050
SECONDS = 3.0
TONE = 0.5 * np.sin(2 * np.pi * 440 * np.arange(int(SECONDS * RATE)) / RATE).astype(np.float32)


def encoded(name: str, pieces: list[np.ndarray]) -> bytes:
    encoder = encoder_of(name, RATE)
    return b"".join(encoder.add(piece, i == len(pieces) - 1) for i, piece in enumerate(pieces))


def heard(name: str, content: bytes) -> tuple[np.ndarray, int]:
    if name == "pcm":
        return np.frombuffer(content, "<i2") / 32_768, 24_000
    return soundfile.read(io.BytesIO(content))


def with_length(flac: bytes, num_samples: int) -> bytes:
    """With the length that a stream can't say, and that libsndfile wants to know."""
    assert flac[:4] == b"fLaC" and not any(flac[22:26]), "known already"
    return flac[:22] + num_samples.to_bytes(4, "big") + flac[26:]


def pitch_of(samples: np.ndarray, rate: int) -> float:
    middle = samples[len(samples) // 4 : len(samples) // 2]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    return float(np.argmax(spectrum) * rate / len(middle))


@pytest.mark.parametrize("name", FORMATS)
def test_a_whole_answer_is_read_as_what_was_said(name):
    samples, rate = heard(name, encoded(name, [TONE]))
    assert len(samples) / rate == pytest.approx(SECONDS, abs=0.15)
    assert pitch_of(samples, rate) == pytest.approx(440, abs=3)
    assert np.abs(samples).max() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("name", FORMATS)
def test_a_stream_is_read_as_what_was_said(name):
    parts = [*np.array_split(TONE, 5), np.zeros(0, np.float32)]
    content = encoded(name, parts)
    if name == "flac":
        content = with_length(content, len(TONE))
    samples, rate = heard(name, content)
    assert len(samples) / rate == pytest.approx(SECONDS, abs=0.15)
    assert pitch_of(samples, rate) == pytest.approx(440, abs=3)


@pytest.mark.parametrize("name", FORMATS)
def test_sound_is_given_before_the_end(name):
    encoder = encoder_of(name, RATE)
    assert len(encoder.add(TONE, False)) > 200
    encoder.add(TONE[:0], True)


@pytest.mark.parametrize("name", FORMATS)
def test_minutes_at_once_can_be_encoded(name):
    long = np.tile(TONE, 20)
    samples, rate = heard(name, encoded(name, [long]))
    assert len(samples) / rate == pytest.approx(20 * SECONDS, abs=0.2)
