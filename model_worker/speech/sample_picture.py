"""A picture of what a model said: its alignment, its mel, and the mel it should have been."""

from __future__ import annotations

import numpy as np

from shared.console.sample_panels import Panel, draw_panels
from shared.speech.mel import HOP, SAMPLE_RATE


def draw(
    title: str, alignment: np.ndarray, mel: np.ndarray, true_mel: np.ndarray
) -> tuple[bytes, np.ndarray]:
    """Draw one utterance.

    Args:
        alignment: float32 (frames, symbols), 1.0 where a frame belongs to a symbol.
        mel, true_mel: float32 (frames, 80), natural log; their lengths may differ.

    Returns:
        The picture as a PNG file, and as uint8 (height, width, 4).
    """
    limits = float(true_mel.min()), float(true_mel.max())
    panels = [
        Panel("symbol", alignment),
        Panel("mel, spoken", mel, limits),
        Panel("mel, recorded", true_mel, limits),
    ]
    return draw_panels(title, panels, HOP / SAMPLE_RATE)
