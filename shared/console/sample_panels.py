"""A sample as a picture: what was made and what it should have been, above each other over time."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_WIDTH_INCHES, _PANEL_INCHES, _MARGIN_INCHES, _DOTS_PER_INCH = 8.0, 1.95, 0.65, 90
_MAX_TITLE = 90
_INK = "#808080"  # on nothing: read on white and on black


class Panel(NamedTuple):
    """One picture of the sample: values float32 (frames, rows), drawn as brightness.

    `limits` are the darkest and the brightest value; None: the panel's own. `highest` is what stands at
    its upper edge; 0: the number of rows.
    """

    label: str
    values: np.ndarray
    limits: tuple[float, float] | None = None
    highest: float = 0.0


def draw_panels(title: str, panels: Sequence[Panel], frame_s: float) -> tuple[bytes, np.ndarray]:
    """Draw one sample. Uses no global state of matplotlib, so any thread may do it.

    Returns:
        The picture as a PNG file, and as uint8 (height, width, 4).
    """
    height = _PANEL_INCHES * len(panels) + _MARGIN_INCHES
    figure = Figure(figsize=(_WIDTH_INCHES, height), dpi=_DOTS_PER_INCH, facecolor="none")
    canvas = FigureCanvasAgg(figure)
    longest_s = max(1, *(len(panel.values) for panel in panels)) * frame_s
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (label, values, limits, highest) in zip(rows, panels, strict=True):
        edges = (0.0, highest) if highest else (-0.5, values.shape[1] - 0.5)
        axes.imshow(
            values.T if len(values) else np.zeros((values.shape[1], 1)),
            origin="lower", aspect="auto", interpolation="nearest", cmap="magma",
            extent=(0.0, max(len(values), 1) * frame_s, *edges),
            vmin=limits and limits[0], vmax=limits and limits[1],
        )  # fmt: skip
        axes.set_ylabel(label, color=_INK)
        axes.tick_params(colors=_INK)
        axes.spines[:].set_color(_INK)
        axes.set_facecolor("none")
        axes.set_xlim(0.0, longest_s)
    rows[-1].set_xlabel("seconds", color=_INK)
    short = title if len(title) <= _MAX_TITLE else title[: _MAX_TITLE - 1] + "…"
    rows[0].set_title(short, fontsize=10, color=_INK, parse_math=False)
    margin = _MARGIN_INCHES / height
    figure.subplots_adjust(
        left=0.09, right=0.98, top=1 - 0.4 * margin, bottom=0.8 * margin, hspace=0.12
    )
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a script that the font lacks is no one's fault
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba()).copy()
        figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH)
    return buffer.getvalue(), pixels
