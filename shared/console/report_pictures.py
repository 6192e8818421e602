"""The report's pictures: the two GPUs, the queue, the losses, where the time went."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from shared.console import report_series as series
from shared.console.pictures import (
    BAD,
    DATA,
    FIFTH,
    FOURTH,
    GOOD,
    INK,
    MODEL,
    SIXTH,
    SOFT,
    THIRD,
    draw,
    legend_above,
    plain_ticks,
)
from shared.console.report_series import Curve
from shared.console.run_story import RunStory

_COLOURS = {
    "model": MODEL, "data": DATA, "third": THIRD, "fourth": FOURTH, "fifth": FIFTH, "sixth": SIXTH,
    "good": GOOD, "bad": BAD, "soft": SOFT,
}  # fmt: skip
_MOST_POINTS = 500  # of a line; more are drawn as means with the range around them
_MARKED_POINTS = 30


def gpus_and_queue(story: RunStory) -> str:
    """Both GPUs' busy share over time, and the queue between them, as one picture."""
    unit_s, unit = series.time_unit(max(story.clock_s))
    queue = series.queue(story)
    clock, depth = queue.x / unit_s, queue.y

    def paint(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.4))
        both = series.sides(story)
        for side in both:
            _line(upper, side, unit_s)
        upper.set_ylim(0, 1.02)
        upper.yaxis.set_major_formatter(PercentFormatter(1.0))
        upper.set_ylabel("busy")
        legend_above(upper, len(both))
        if len(clock) > _MOST_POINTS:
            _line(lower, queue, unit_s)
        else:
            lower.fill_between(clock, depth, step="post", color=THIRD, alpha=0.35, linewidth=0)
            lower.step(clock, depth, where="post", color=THIRD, linewidth=1.4)
        if story.config is not None:
            bound = story.config.data.pipeline_buffer_size
            lower.axhline(bound, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
        lower.set_ylim(bottom=0)
        lower.set_ylabel("queue")
        lower.set_xlabel(f"{unit} of training")
        for axes in (upper, lower):
            for pause_s in story.pauses_s:
                axes.axvline(pause_s / unit_s, color=BAD, linewidth=1, linestyle=(0, (2, 2)))

    return draw("Busy share of both sides, and queue depth, over time", 4.6, paint)


def losses(story: RunStory) -> str:
    """Training and validation loss, and the parts of the training loss."""
    training, *checked = series.losses(story)
    parts = series.loss_parts(story)

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharex=True)
        _line(left, training)
        for curve in checked:
            marker = "o" if len(curve.x) < _MARKED_POINTS else None
            left.plot(
                curve.x,
                curve.y,
                color=_COLOURS[curve.colour],
                marker=marker,
                markersize=4,
                linewidth=1.6,
                label=curve.name,
            )
        left.set_ylabel("loss")
        for part in parts:
            _line(right, part, band=False)
        for axes in (left, right):
            axes.set_xlabel("step")
            if axes.lines and _spans_decades(axes):
                axes.set_yscale("log")
                plain_ticks(axes)
        legend_above(left, 2)
        if parts:
            legend_above(right, min(4, len(parts)))

    return draw("Loss curves of training and validation", 3.4, paint)


def time_spent(story: RunStory) -> str:
    """Where one batch's time went on each side, on average over the run."""
    rows = series.time_spent(story)
    if not rows:
        return ""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        places = range(len(rows))
        axes.barh(
            places,
            [row.milliseconds for row in rows],
            color=[_COLOURS[row.colour] for row in rows],
            height=0.62,
            alpha=0.9,
        )
        axes.set_yticks(places, [row.name for row in rows])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("milliseconds per batch")
        widest = max(row.milliseconds for row in rows)
        for place, row in zip(places, rows, strict=True):
            words = f"{row.milliseconds:,.1f}"
            at = row.milliseconds + 0.01 * widest
            axes.text(at, place, words, va="center", color=INK, fontsize=10)
        axes.set_xlim(0, widest * 1.12 or 1)
        axes.tick_params(axis="y", length=0)

    return draw("Milliseconds per batch by what they were spent on", 0.5 + 0.33 * len(rows), paint)


def pace(story: RunStory) -> str:
    """Padding and speed over the steps."""

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharex=True)
        _line(left, series.padding(story))
        left.set_ylim(0, 1)
        left.yaxis.set_major_formatter(PercentFormatter(1.0))
        left.set_ylabel("of what is computed is padding")
        _line(right, series.speed(story))
        right.set_ylim(bottom=0)
        right.set_ylabel(f"{story.unit} a second")
        for axes in (left, right):
            axes.set_xlabel("step")

    return draw("Padding and speed over the steps", 2.7, paint)


def _spans_decades(axes: Axes) -> bool:
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.lines])
    values = values[np.isfinite(values)]
    return bool(len(values)) and values.min() > 0 and values.max() > 20 * values.min()


def _line(axes: Axes, curve: Curve, unit: float = 1.0, band: bool = True) -> None:
    """A line; of very many points their means, with the middle nine tenths behind it."""
    x, y, colour = curve.x / unit, curve.y, _COLOURS[curve.colour]
    if len(x) > _MOST_POINTS:
        pieces_x, pieces_y = np.array_split(x, _MOST_POINTS), np.array_split(y, _MOST_POINTS)
        if band:
            low, high = np.array(
                [
                    np.percentile(p[np.isfinite(p)], [5, 95])
                    if np.isfinite(p).any()
                    else (np.nan, np.nan)
                    for p in pieces_y
                ]
            ).T
            middle = [piece.mean() for piece in pieces_x]
            axes.fill_between(middle, low, high, color=colour, alpha=0.22, linewidth=0)
        x = np.array([piece.mean() for piece in pieces_x])
        y = np.array([piece.mean() for piece in pieces_y])
    marker = "o" if len(x) < 3 else None
    axes.plot(x, y, color=colour, linewidth=1.5, label=curve.name, marker=marker, markersize=4)
