"""The report's pictures: the two GPUs, the queue, the losses, where the time went."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from shared.console.numbers import number, numbers
from shared.console.pictures import (
    BAD,
    DATA,
    GOOD,
    INK,
    MODEL,
    SERIES,
    SOFT,
    THIRD,
    draw,
    legend_above,
    plain_ticks,
)
from shared.console.run_story import RunStory
from shared.diagnosis.verdict import Measured, in_words
from shared.diagnosis.wait_attribution import CAUSES

_MOST_POINTS = 500  # of a line; more are drawn as means with the range around them
_MARKED_POINTS = 30
_LEAST_SHOWN_MS = 0.05
# Counts, and the times in which nothing was done.
_NOT_TIMES = ("readers", "cores_busy", "idle_share", "read_wait", "in_process")


def busy_windows(story: RunStory) -> tuple[np.ndarray, np.ndarray]:
    """When and how busy: the model GPU's one-second windows, both float64 (windows,)."""
    when_s, share = [], []
    before_s = None
    for clock_s, record in zip(story.clock_s, story.steps, strict=True):
        windows = numbers(record, "model_gpu_busy")
        begin_s = clock_s - len(windows) if before_s is None else before_s
        when_s += [
            begin_s + (clock_s - begin_s) * (i + 1) / len(windows) for i in range(len(windows))
        ]
        share += windows
        before_s = clock_s
    return np.array(when_s), np.array(share)


def after_compilation(story: RunStory) -> list[dict]:
    """The logged steps but the first, which holds the compilation and says nothing of the rest."""
    return story.steps[1:] if len(story.steps) > 2 else story.steps


def gpus_and_queue(story: RunStory) -> str:
    """Both GPUs' busy share over time, and the queue between them, as one picture."""
    unit_s, unit = _unit(max(story.clock_s))
    when_s, share = busy_windows(story)
    clock = np.array(story.clock_s) / unit_s
    depth = np.array([number(record, "queue_depth") for record in story.steps])
    data_share = np.array([number(record, "data_gpu_busy") for record in story.steps])

    def paint(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.4))
        _line(upper, when_s / unit_s, share, MODEL, story.device("model"))
        _line(upper, clock, data_share, DATA, story.device("data"))
        upper.set_ylim(0, 1.02)
        upper.yaxis.set_major_formatter(PercentFormatter(1.0))
        upper.set_ylabel("busy")
        legend_above(upper, 2)
        if len(clock) > _MOST_POINTS:
            _line(lower, clock, depth, THIRD, "queue")
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
    steps = np.array([record["step"] for record in story.steps])
    loss = np.array([number(record, "loss") for record in story.steps])
    parts = sorted({n for r in story.steps for n in r if n.startswith("loss_")})
    checked = [record["step"] for record in story.validations]
    val_loss = [number(record, "val_loss") for record in story.validations]

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharex=True)
        _line(left, steps, loss, MODEL, "training")
        if checked:
            marker = "o" if len(checked) < _MARKED_POINTS else None
            left.plot(
                checked,
                val_loss,
                color=GOOD,
                marker=marker,
                markersize=4,
                linewidth=1.6,
                label="validation",
            )
        left.set_ylabel("loss")
        for part, colour in zip(parts, SERIES, strict=False):
            values = np.array([number(record, part) for record in story.steps])
            _line(right, steps, values, colour, part.removeprefix("loss_"), band=False)
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
    step_ms = _mean(story, "step_ms")
    seen: dict[str, list[float]] = {}
    for record in after_compilation(story):
        timings = record.get("timings_ms")
        if not isinstance(timings, dict):
            continue
        for name in timings:
            if name not in _NOT_TIMES and math.isfinite(number(timings, name)):
                seen.setdefault(name, []).append(number(timings, name))
    on_the_way = {name.replace("_", " "): float(np.mean(v)) for name, v in seen.items()}
    rows = [("training step", step_ms, MODEL)] if math.isfinite(step_ms) else []
    rows += [(f"waiting for {name}", ms, BAD) for name, ms in _waits(story)]
    rows += [(n, ms, DATA) for n, ms in on_the_way.items()]
    if not rows:
        return ""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        places = range(len(rows))
        axes.barh(
            places, [ms for _, ms, _ in rows], color=[c for *_, c in rows], height=0.62, alpha=0.9
        )
        axes.set_yticks(places, [name for name, *_ in rows])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("milliseconds per batch")
        widest = max(ms for _, ms, _ in rows)
        for place, (_, ms, _) in zip(places, rows, strict=True):
            axes.text(ms + 0.01 * widest, place, f"{ms:,.1f}", va="center", color=INK, fontsize=10)
        axes.set_xlim(0, widest * 1.12 or 1)
        axes.tick_params(axis="y", length=0)

    return draw("Milliseconds per batch by what they were spent on", 0.5 + 0.33 * len(rows), paint)


def _waits(story: RunStory) -> list[tuple[str, float]]:
    """What the model process waited for, the most first, as milliseconds per batch."""
    waited_ms = _mean(story, "data_wait_ms")
    if not math.isfinite(waited_ms):
        return []
    measured = Measured(story.steps)
    found = {in_words(cause): measured.waited_for(cause) for cause in CAUSES}
    shown = sorted(((n, ms) for n, ms in found.items() if ms >= _LEAST_SHOWN_MS),
                   key=lambda item: -item[1])  # fmt: skip
    unknown_ms = max(0.0, waited_ms - sum(ms for _, ms in shown))
    if unknown_ms >= _LEAST_SHOWN_MS or not shown:
        shown.append(("data" if measured.is_empty else "anything else", unknown_ms))
    return shown


def pace(story: RunStory) -> str:
    """Padding and speed over the steps."""
    steps = np.array([record["step"] for record in story.steps])
    padding = np.array([number(record, "padding_fraction") for record in story.steps])
    speed = np.array([number(record, "amount_per_s") for record in story.steps])

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharex=True)
        _line(left, steps, padding, THIRD, "padding")
        left.set_ylim(0, 1)
        left.yaxis.set_major_formatter(PercentFormatter(1.0))
        left.set_ylabel("of what is computed is padding")
        _line(right, steps, speed, GOOD, "speed")
        right.set_ylim(bottom=0)
        right.set_ylabel(f"{story.unit} a second")
        for axes in (left, right):
            axes.set_xlabel("step")

    return draw("Padding and speed over the steps", 2.7, paint)


def _mean(story: RunStory, name: str) -> float:
    values = [number(record, name) for record in after_compilation(story)]
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else math.nan


def _unit(longest_s: float) -> tuple[float, str]:
    if longest_s > 3 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if longest_s > 300 else (1.0, "seconds")


def _spans_decades(axes: Axes) -> bool:
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.lines])
    values = values[np.isfinite(values)]
    return bool(len(values)) and values.min() > 0 and values.max() > 20 * values.min()


def _line(
    axes: Axes, x: np.ndarray, y: np.ndarray, colour: str, label: str, band: bool = True
) -> None:
    """A line; of very many points their means, with the middle nine tenths behind it."""
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
    axes.plot(x, y, color=colour, linewidth=1.5, label=label, marker=marker, markersize=4)
