"""Matplotlib figures as SVG inside a page, in the page's own colours, light and dark."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from shared.console.page import text

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

# Drawn with these, then replaced by the page's variables: no picture has colours of its own.
_VARIABLES = {
    "#010101": "--ink", "#020202": "--soft", "#030303": "--grid", "#040404": "--data",
    "#050505": "--model", "#060606": "--good", "#070707": "--bad", "#080808": "--third",
    "#090909": "--fourth", "#0a0a0a": "--fifth", "#0b0b0b": "--sixth",
}  # fmt: skip
INK, SOFT, GRID, DATA, MODEL, GOOD, BAD, THIRD, FOURTH, FIFTH, SIXTH = _VARIABLES
SERIES = (MODEL, DATA, THIRD, FOURTH, FIFTH, SIXTH, GOOD, SOFT)
_SETTINGS: dict[RcKeyType, object] = {
    "svg.fonttype": "none", "font.size": 10.5, "font.family": ["sans-serif"],
    "axes.edgecolor": SOFT, "axes.labelcolor": SOFT, "text.color": INK, "xtick.color": SOFT,
    "ytick.color": SOFT, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": GRID, "grid.linewidth": 0.8, "axes.axisbelow": True, "legend.frameon": False,
    "axes.unicode_minus": True, "svg.image_inline": True, "text.parse_math": False,
}  # fmt: skip
_WIDTH_INCHES = 10.0


def draw(
    describe: str,
    height_inches: float,
    paint: Callable[[Figure], None],
    width_inches: float = _WIDTH_INCHES,
) -> str:
    """The SVG of a figure that `paint` fills; `describe` is read to those who can't see it."""
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(width_inches, height_inches), layout="constrained")
        FigureCanvasSVG(figure)
        paint(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    # The page's font; matplotlib measured with its own, which is about as wide.
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1; font-family: inherit", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{text(describe)}" ', 1)


def bars(
    describe: str,
    histogram: dict,
    label: str,
    counted: str,
    height_inches: float = 2.4,
    width_inches: float = 5.6,
) -> str:
    """A histogram of {"edges", "counts"}; `counted` is what there are so many of."""
    edges, counts = histogram["edges"], histogram["counts"]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        widths = [high - low for low, high in itertools.pairwise(edges)]
        axes.bar(
            edges[:-1],
            counts,
            width=widths,
            align="edge",
            color=MODEL,
            edgecolor="none",
            alpha=0.85,
        )
        axes.set_xlabel(label)
        axes.set_ylabel(counted)
        axes.grid(visible=False, axis="x")

    return draw(describe, height_inches, paint, width_inches)


def legend_above(axes: Axes, columns: int) -> None:
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        handlelength=1.2,
        columnspacing=1.4,
    )


def plain_ticks(axes: Axes) -> None:
    """Numbers as people write them on a logarithmic axis: 0.2, 0.5, 1, 2; no powers of ten."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
