"""A picture of what a model said: its alignment, its mel, and the mel it should have been."""

from __future__ import annotations

import io
import warnings

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from shared.speech.mel import HOP, SAMPLE_RATE

_SIZE_INCHES, _DOTS_PER_INCH = (8.0, 6.5), 90
_MAX_TITLE = 90
_INK = "#808080"  # on nothing: read on white and on black


def draw(
    title: str, alignment: np.ndarray, mel: np.ndarray, true_mel: np.ndarray
) -> tuple[bytes, np.ndarray]:
    """Draw one utterance. Uses no global state of matplotlib, so any thread may do it.

    Args:
        alignment: float32 (frames, symbols), 1.0 where a frame belongs to a symbol.
        mel, true_mel: float32 (frames, 80), natural log; their lengths may differ.

    Returns:
        The picture as a PNG file, and as uint8 (height, width, 4).
    """
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, facecolor="none")
    canvas = FigureCanvasAgg(figure)
    frame_s = HOP / SAMPLE_RATE
    longest_s = max(len(mel), len(true_mel), 1) * frame_s
    darkest, brightest = float(true_mel.min()), float(true_mel.max())
    panels = figure.subplots(3, 1, sharex=True)
    parts = [
        ("symbol", alignment, "magma", None),
        ("mel, spoken", mel, "magma", (darkest, brightest)),
        ("mel, recorded", true_mel, "magma", (darkest, brightest)),
    ]
    for panel, (label, values, colours, limits) in zip(panels, parts, strict=True):
        extent = (0.0, max(len(values), 1) * frame_s, -0.5, values.shape[1] - 0.5)
        panel.imshow(
            values.T if len(values) else np.zeros((values.shape[1], 1)),
            origin="lower", aspect="auto", interpolation="nearest", extent=extent, cmap=colours,
            vmin=limits and limits[0], vmax=limits and limits[1],
        )  # fmt: skip
        panel.set_ylabel(label, color=_INK)
        panel.tick_params(colors=_INK)
        panel.spines[:].set_color(_INK)
        panel.set_facecolor("none")
        panel.set_xlim(0.0, longest_s)
    panels[-1].set_xlabel("seconds", color=_INK)
    short = title if len(title) <= _MAX_TITLE else title[: _MAX_TITLE - 1] + "…"
    panels[0].set_title(short, fontsize=10, color=_INK, parse_math=False)
    figure.subplots_adjust(left=0.09, right=0.98, top=0.94, bottom=0.08, hspace=0.12)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a script that the font lacks is no one's fault
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba()).copy()
        figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH)
    return buffer.getvalue(), pixels
