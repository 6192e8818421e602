"""What `bench` measured, as a table for the terminal and as a picture."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from shared.console.memory_text import memory_lines
from shared.devices.words import share_in_words
from shared.diagnosis.bench_advice import limit_of
from shared.diagnosis.steadiness import steadiness

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

_SETTINGS: dict[RcKeyType, object] = {
    "font.size": 11, "axes.spines.top": False, "axes.spines.right": False,
    "axes.spines.left": False, "text.parse_math": False,
}  # fmt: skip
_COLOURS = {"sequential": "#9aa4ad", "single-GPU buffered": "#b45f06", "multi-GPU": "#1f6fb2"}
_LIMITS = {"single": "limit with one GPU or none", "multi": "limit with two GPUs"}
_ROOM_FOR_WORDS = 0.3  # of the picture's width
_INK, _SOFT = "#1d2126", "#5d6670"


def _what_of(found: dict) -> str:
    """The task, and its size where it comes in several."""
    return f"{found['task']} {found['model_size']}".rstrip()


def table_of(found: dict) -> Iterator[str]:
    """Lines for the terminal; none is wider than 80."""
    yield ""
    details = f", {found['details']}" if found["details"] else ""
    yield f"{found['examples']:,} {found['noun']}{details}"
    yield f"{_what_of(found)} · batch {found['batch_size']} · cache {found['cache']}"
    gpus = ", ".join(found["gpus"]) or "no GPU"
    yield f"{found['cores']} cores, {gpus}"
    yield ""
    per_s = f"{found['unit']}/s"
    wide = max(14, len(per_s) + 2)
    yield f"{'':21}{'batches/s':>10}{per_s:>{wide}}{'of limit':>10}{'busy':>7}{'steady':>8}"
    for mode in found["modes"]:
        shares = mode["model_gpu_busy"]
        steady = steadiness(shares)
        yield (
            f"{mode['mode']:21}{mode['batches_per_s']:>10.2f}{mode['amount_per_s']:>{wide}.0f}"
            f"{mode['share_of_limit']:>10.0%}{share_in_words(float(np.median(shares)) if shares else None):>7}"
            f"{steady.ratio if steady else '–':>8}"
        )
    for name, parts in found["limits"].items():
        data, model = (parts[side]["amount_per_s"] for side in ("data", "model"))
        yield (
            f"{_LIMITS[name]}: {limit_of(parts):.0f} {per_s} "
            f"(batches alone {data:.0f}, steps alone {model:.0f})"
        )
    yield ""
    if found["memory"] is not None:
        yield from memory_lines(found["memory"])
        yield ""
    for reason in found["advice"]["why"]:
        yield f"   {reason}"
    flags = shlex.join(found["advice"]["flags"])
    yield f"👉 Use: {flags}" if flags else "👉 Use no flags: the defaults are right here."


def picture_of(found: dict) -> bytes:
    """The same as a PNG: a bar for each mode, a line at each limit."""
    modes = found["modes"]
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(9, 1.4 + 0.75 * len(modes)), layout="constrained", dpi=110)
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        rates = [mode["amount_per_s"] for mode in modes]
        places = range(len(modes))
        axes.barh(places, rates, color=[_COLOURS[mode["mode"]] for mode in modes], height=0.6)
        widest = max([*rates, *(limit_of(parts) for parts in found["limits"].values())])
        for place, mode in zip(places, modes, strict=True):
            words = f"{mode['amount_per_s']:,.0f}  ({mode['share_of_limit']:.0%} of limit)"
            rate = mode["amount_per_s"]
            fits = rate > _ROOM_FOR_WORDS * widest
            axes.text(
                (0 if fits else rate) + 0.01 * widest,
                place,
                words,
                va="center",
                color="white" if fits else _INK,
                fontweight="bold",
            )
            limit = limit_of(found["limits"][mode["limit"]])
            axes.plot([limit, limit], [place - 0.38, place + 0.38], color=_INK, linewidth=2)
        axes.set_yticks(places, [mode["mode"] for mode in modes])
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.set_xlim(0, widest * 1.05)
        axes.set_xlabel(
            f"{found['unit']} trained per second; black: the limit, the slower side alone",
            color=_SOFT,
        )
        title = (
            f"{found['examples']:,} {found['noun']}, {_what_of(found)}, "
            f"batch {found['batch_size']}, {found['cores']} cores, "
            f"{', '.join(found['gpus']) or 'no GPU'}"
        )
        axes.set_title(title, loc="left", fontsize=11, color=_INK)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
