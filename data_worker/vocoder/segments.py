"""A segment of a recording: where it begins, how loud it is, and what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shared.speech.mel import HOP, SILENCE
from shared.vocoder.batch import SEGMENT_FRAMES

UNVOICED_LOG_F0 = 5.0  # of a recording without any pitch: 148 Hz, where nothing will be heard of it
QUIETEST_GAIN = 0.3  # speech is not always as loud as a recording whose peak was brought to 0.95


def without_gaps(hertz: np.ndarray) -> np.ndarray:
    """The natural log of a pitch in Hz, 0 where there is none: straight lines over those, float32.

    Before the first voiced frame and after the last it stands still.
    """
    voiced = np.flatnonzero(hertz > 0)
    if not len(voiced):
        return np.full(len(hertz), UNVOICED_LOG_F0, np.float32)
    known = np.log(hertz[voiced].astype(np.float64))
    return np.interp(np.arange(len(hertz)), voiced, known).astype(np.float32)


def segment_of(features: Mapping[str, np.ndarray], place: float, level: float) -> dict[str, Any]:
    """The row of a batch from a recording's features; `place` and `level` are in [0, 1).

    The mel is that of the audio times the gain, exactly: gains are at most 1, so that what lay at the
    mel's floor stays there. A recording that is shorter than a segment is followed by silence.
    """
    mel, log_f0 = features["mel"], features["log_f0"]
    first = int(place * max(1, len(mel) - SEGMENT_FRAMES + 1))
    frames = slice(first, first + SEGMENT_FRAMES)
    gain = np.float32(QUIETEST_GAIN ** (1.0 - level))
    missing = max(0, SEGMENT_FRAMES - len(mel))
    floor = np.float32(SILENCE)
    quieter = np.maximum(mel[frames] + np.log(gain), floor)
    return {
        "audio": np.pad(
            features["audio"][first * HOP : (first + SEGMENT_FRAMES) * HOP], (0, missing * HOP)
        ),
        "gain": gain,
        "mel": np.pad(quieter, ((0, missing), (0, 0)), constant_values=floor),
        "log_f0": np.pad(log_f0[frames], (0, missing), mode="edge"),
    }
