"""Means and deviations of the corpus, from a seeded sample of its training clips.

The network sees mels, pitch and energy normalised by these; they are part of the index, so that
every process and every later fine-tuning uses the same.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from shared.errors import ReadError
from shared.speech import mel
from shared.speech.corpus_statistics import Statistics
from shared.speech.utterance import load_utterance

SAMPLE_CLIPS = 96
_YIN_THRESHOLD = 0.15
_YIN_WINDOW, _YIN_HOP = 1024, 1024
_DEFAULT_PITCH = (5.0, 0.25)  # of log Hz, where no frame of the sample is voiced
_SMALLEST_STD = 0.02


class Clip(NamedTuple):
    """Where one clip of the sample is; `start` and `num_samples` in the file's own samples."""

    root: str
    path: str
    start: int
    num_samples: int
    sample_rate: int


class Sums(NamedTuple):
    """Count, sum and sum of squares of mel, log pitch and log energy: float64 (3, 3)."""

    table: np.ndarray


def measure(clip: Clip, mel_basis: np.ndarray, normalise_loudness: bool) -> Sums | None:
    """What one clip adds to the sums; None if it can't be read after all."""
    try:
        audio = load_utterance(
            os.path.join(clip.root, clip.path),
            clip.start,
            clip.num_samples,
            clip.sample_rate,
            normalise_loudness,
        )
    except (ReadError, OSError):
        return None
    energy = mel.energy(audio)
    pitch = fundamental_hz(audio)
    values = (
        mel.log_mel(audio, mel_basis).reshape(-1),
        np.log(pitch[pitch > 0]),
        np.log(energy + 1e-5),
    )
    return Sums(
        np.array(
            [
                (len(v), v.sum(dtype=np.float64), np.square(v, dtype=np.float64).sum())
                for v in values
            ]
        )
    )


def combine(sums: list[Sums | None]) -> Statistics:
    """The corpus' statistics from those of its clips."""
    table = sum((s.table for s in sums if isinstance(s, Sums)), np.zeros((3, 3)))
    found = []
    for (count, total, squares), default in zip(
        table.tolist(), ((-5.0, 2.0), _DEFAULT_PITCH, (1.0, 2.0)), strict=True
    ):
        mean, std = default
        if count:
            mean = total / count
            std = max(float(np.sqrt(max(squares / count - mean**2, 0.0))), _SMALLEST_STD)
        # Rounded, as the last digits differ from one processor to another, and the index's
        # fingerprint must not.
        found += [round(mean, 3), round(std, 3)]
    return Statistics(*found)


def fundamental_hz(audio: np.ndarray) -> np.ndarray:
    """Pitch by YIN, coarse but quick: float64 (places,) in Hz, 0 where there is none.

    `audio` is float32 (samples,) at 22,050 Hz; one place every 1024 samples is enough for a mean.
    """
    shortest, longest = int(mel.SAMPLE_RATE / mel.MAX_F0_HZ), int(mel.SAMPLE_RATE / mel.MIN_F0_HZ)
    span = _YIN_WINDOW + longest
    if len(audio) < span:
        return np.zeros(0)
    frames = np.lib.stride_tricks.sliding_window_view(audio, span)[::_YIN_HOP].astype(np.float64)
    # d(lag) = energy of the window + energy of the shifted window - 2 * their correlation
    size = 1 << (span - 1).bit_length()
    head = np.fft.rfft(frames[:, :_YIN_WINDOW], size)
    correlation = np.fft.irfft(np.conj(head) * np.fft.rfft(frames, size), size)[:, : longest + 1]
    squares = np.concatenate([np.zeros((len(frames), 1)), np.cumsum(frames**2, axis=1)], axis=1)
    shifted = squares[:, _YIN_WINDOW:] - squares[:, : longest + 1]
    difference = np.maximum(shifted[:, :1] + shifted - 2 * correlation, 0)
    running = np.cumsum(difference[:, 1:], axis=1)
    lags = np.arange(1, longest + 1)
    normalised = difference[:, 1:] * lags / np.maximum(running, 1e-12)
    normalised = normalised[:, shortest - 1 :]
    dips = normalised[:, 1:-1] < _YIN_THRESHOLD
    dips &= (normalised[:, 1:-1] <= normalised[:, 2:]) & (normalised[:, 1:-1] < normalised[:, :-2])
    loud = shifted[:, 0] > 1e-4 * shifted[:, 0].max(initial=0)
    voiced = dips.any(axis=1) & loud
    lag = shortest + 1 + dips.argmax(axis=1)
    return np.where(voiced, mel.SAMPLE_RATE / lag, 0.0)
