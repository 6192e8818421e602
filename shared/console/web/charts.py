"""A run's curves as the page draws them: few points of each, and no number that JSON lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shared.console import report_sections
from shared.console import report_series as series
from shared.console.page import paragraph
from shared.console.report_series import SERIES, Curve, Values
from shared.console.run_story import RunStory

_MOST_POINTS = 400
Json = dict[str, Any]


def charts_of(story: RunStory) -> list[Json]:
    """Of one run, in the order of the report."""
    if not story.steps:
        return []
    unit_s, unit = series.time_unit(max(story.clock_s))
    bound = story.config.data.pipeline_buffer_size if story.config else None
    along = f"{unit} of training"
    return [
        _chart(
            "sides", series.title_of(story), series.sides(story), along, unit_s,
            y="busy", percent=True, words=paragraph(report_sections.steadiness_of(story), "soft"), marks=[round(at / unit_s, 3) for at in story.pauses_s],
        ),
        _chart(
            "queue", "Queue", [series.queue(story)], along, unit_s, y="batches", bound=bound,
            words=paragraph(report_sections.BOUND, "soft"),
        ),
        _chart(
            "loss", "Loss", series.losses(story), "step", y="loss", log=True,
            words=report_sections.overfitting(story),
        ),
        _chart(
            "parts", "Parts of the loss", series.loss_parts(story), "step", y="loss", log=True
        ),
        {
            "id": "time", "title": "Where the time went", "bars": [
                [row.name, round(row.milliseconds, 2), row.colour]
                for row in series.time_spent(story)
            ],
            "words": paragraph(report_sections.verdict(story))
            + paragraph(report_sections.COLOURS_OF_TIME, "soft"),
        },
        _chart("speed", f"Speed, in {story.unit} a second", [series.speed(story)], "step"),
        _chart("padding", "Padding", [series.padding(story)], "step", y="padding", percent=True),
    ]  # fmt: skip


def charts_of_many(stories: Sequence[RunStory]) -> list[Json]:
    """Their curves over one another, each run in a colour of its own."""
    longest_s = max((story.clock_s[-1] for story in stories if story.clock_s), default=0.0)
    unit_s, unit = series.time_unit(longest_s)
    kinds: list[tuple[str, str, str, bool]] = [
        ("validation", "Validation loss", "val_loss", True),
        ("training", "Training loss", "loss", True),
        ("speed", "Speed", "amount_per_s", False),
    ]
    found = []
    for name, title, key, log in kinds:
        by_step, by_time = [], []
        for number, story in enumerate(stories):
            colour = SERIES[number % len(SERIES)]
            if key == "val_loss":
                values = [series.Curve(story.name, colour, c.x, c.y)
                          for c in series.losses(story) if c.name == "validation"]  # fmt: skip
            else:
                steps = series.of_steps(story, "step")
                values = [Curve(story.name, colour, steps, series.of_steps(story, key))]
            by_step += values
            by_time += [Curve(c.name, c.colour, series.times_of(story, c.x), c.y) for c in values]
        y = "loss" if log else "amount a second"
        chart = _chart(name, title, by_step, "step", y=y, log=log)
        chart["over_time"] = _chart(
            name, title, by_time, f"{unit} of training", unit_s, y=y, log=log
        )
        found.append(chart)
    return found


def _chart(
    name: str, title: str, curves: Sequence[Curve], x: str, unit: float = 1.0, **more: Any
) -> Json:
    drawn = [_thinned(curve, unit) for curve in curves]
    return {"id": name, "title": title, "x": x, "curves": [c for c in drawn if c["x"]], **more}


def _thinned(curve: Curve, unit: float) -> Json:
    """Means of neighbours, where there are more points than a screen has columns."""
    x, y = np.asarray(curve.x, np.float64) / unit, np.asarray(curve.y, np.float64)
    if len(x) > _MOST_POINTS:
        x = np.array([piece.mean() for piece in np.array_split(x, _MOST_POINTS)])
        y = np.array([_mean(piece) for piece in np.array_split(y, _MOST_POINTS)])
    return {
        "name": curve.name,
        "colour": curve.colour,
        "x": [float(f"{value:.6g}") for value in x],
        "y": [float(f"{value:.5g}") if np.isfinite(value) else None for value in y],
    }


def _mean(piece: Values) -> float:
    finite = piece[np.isfinite(piece)]
    return float(finite.mean()) if len(finite) else float("nan")
