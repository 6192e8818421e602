"""The reference of a voice: so many frames of a clip's mel, whichever clip that is."""

from __future__ import annotations

import numpy as np

from shared.speech.batch import REFERENCE_FRAMES


def crop_of(frames: int, offset: float) -> tuple[int, int]:
    """First frame and number of frames of a reference crop, for an offset in [0, 1)."""
    start = int(offset * max(1, frames - REFERENCE_FRAMES + 1))
    return start, min(frames, REFERENCE_FRAMES)


def tiled(mel: np.ndarray) -> np.ndarray:
    """A clip's mel (frames, 80), repeated to REFERENCE_FRAMES where it is shorter."""
    repeats = -(-REFERENCE_FRAMES // len(mel))
    return np.tile(mel, (repeats, 1))[:REFERENCE_FRAMES] if repeats > 1 else mel
