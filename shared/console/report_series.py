"""What the pictures of a run show, as numbers: for the report that is drawn, and the page that lives.

A curve's colour is the name of one of the page's variables (see `page`).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from shared.console.run_story import RunStory
from shared.diagnosis.verdict import Measured, in_words
from shared.diagnosis.wait_attribution import CAUSES
from shared.run.record_numbers import number, numbers

Values = npt.NDArray[np.float64]

SERIES = ("model", "data", "third", "fourth", "fifth", "sixth", "good", "soft")
_LEAST_SHOWN_MS = 0.05
# Counts, and the times in which nothing was done.
_NOT_TIMES = ("readers", "cores_busy", "idle_share", "read_wait", "in_process")


@dataclasses.dataclass(frozen=True)
class Curve:
    """A named line of points."""

    name: str
    colour: str
    x: Values
    y: Values  # NaN where there is a gap


@dataclasses.dataclass(frozen=True)
class TimeSpent:
    """Milliseconds of each batch for one thing."""

    name: str
    milliseconds: float
    colour: str


def busy_windows(story: RunStory) -> tuple[Values, Values]:
    """When and how busy: the model GPU's one-second windows, both float64 (windows,)."""
    return _over_time(story, [numbers(record, "model_gpu_busy") for record in story.steps])


def windows_of_others(story: RunStory) -> list[tuple[Values, Values]]:
    """The same of each further model GPU, where there were several."""
    found: list[list[list[float]]] = []  # of each step, of each of them, its windows
    for record in story.steps:
        told = record.get("other_replicas")
        each = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
        found.append([numbers(one, "busy") for one in each])
    return [
        _over_time(story, [windows[place] if place < len(windows) else [] for windows in found])
        for place in range(max(map(len, found), default=0))
    ]


def _over_time(story: RunStory, of_each_step: list[list[float]]) -> tuple[Values, Values]:
    when_s: list[float] = []
    share: list[float] = []
    before_s = None
    for clock_s, windows in zip(story.clock_s, of_each_step, strict=True):
        begin_s = clock_s - len(windows) if before_s is None else before_s
        when_s += [
            begin_s + (clock_s - begin_s) * (i + 1) / len(windows) for i in range(len(windows))
        ]
        share += windows
        before_s = clock_s
    return np.array(when_s), np.array(share)


def after_compilation(story: RunStory) -> list[dict[str, Any]]:
    """The logged steps but the first, which holds the compilation and says nothing of the rest."""
    return story.steps[1:] if len(story.steps) > 2 else story.steps


def time_unit(longest_s: float) -> tuple[float, str]:
    """Seconds in the unit that an axis of time is best labelled with, and its name."""
    if longest_s > 3 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if longest_s > 300 else (1.0, "seconds")


def title_of(story: RunStory) -> str:
    """Of what shows how busy both sides were."""
    both = f"{story.device('data')}, {story.device('model')}"
    return "The two GPUs" if "CPU" not in both else "The two sides"


def times_of(story: RunStory, steps: Values) -> Values:
    """When steps were done, in seconds of training."""
    if not story.steps:
        return np.zeros_like(steps)
    return np.interp(steps, of_steps(story, "step"), np.array(story.clock_s))


def sides(story: RunStory) -> list[Curve]:
    """How busy both sides were over time, in seconds."""
    device = story.device("model")
    return [
        Curve(device, "model", *busy_windows(story)),
        *(
            Curve(f"{device} {place}", SERIES[2 + (place - 1) % (len(SERIES) - 2)], *windows)
            for place, windows in enumerate(windows_of_others(story), 1)
        ),
        Curve(
            story.device("data"), "data", np.array(story.clock_s), of_steps(story, "data_gpu_busy")
        ),
    ]


def queue(story: RunStory) -> Curve:
    """Its depth over time, in seconds."""
    return Curve("queue", "third", np.array(story.clock_s), of_steps(story, "queue_depth"))


def losses(story: RunStory) -> list[Curve]:
    """Training and validation loss over the steps."""
    checked = np.array([float(record["step"]) for record in story.validations])
    values = np.array([number(record, "val_loss") for record in story.validations])
    found = [Curve("training", "model", of_steps(story, "step"), of_steps(story, "loss"))]
    return [*found, Curve("validation", "good", checked, values)] if len(checked) else found


def loss_parts(story: RunStory) -> list[Curve]:
    """The parts of the training loss."""
    parts = sorted({n for r in story.steps for n in r if n.startswith("loss_")})
    steps = of_steps(story, "step")
    return [
        Curve(part.removeprefix("loss_"), colour, steps, of_steps(story, part))
        for part, colour in zip(parts, SERIES, strict=False)
    ]


def padding(story: RunStory) -> Curve:
    return Curve("padding", "third", of_steps(story, "step"), of_steps(story, "padding_fraction"))


def speed(story: RunStory) -> Curve:
    return Curve("speed", "good", of_steps(story, "step"), of_steps(story, "amount_per_s"))


def of_steps(story: RunStory, name: str) -> Values:
    """A number of each logged step, NaN where one has none."""
    return np.array([number(record, name) for record in story.steps])


def time_spent(story: RunStory) -> list[TimeSpent]:
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
    rows = [TimeSpent("training step", step_ms, "model")] if math.isfinite(step_ms) else []
    rows += [TimeSpent(f"waiting for {name}", ms, "bad") for name, ms in _waits(story)]
    return rows + [
        TimeSpent(name.replace("_", " "), float(np.mean(values)), "data")
        for name, values in seen.items()
    ]


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


def _mean(story: RunStory, name: str) -> float:
    values = [number(record, name) for record in after_compilation(story)]
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else math.nan
