"""The parts of a run's page that are words and tables: of the report, and of the page that lives."""

from __future__ import annotations

import math
import time

import numpy as np

from shared.clock import clock
from shared.config.option import rules_of
from shared.config.settings import SECTIONS, Config
from shared.console import report_series
from shared.console.page import facts, folded, panel, paragraph, section, table, text
from shared.console.run_story import RunStory, judged, judged_by
from shared.console.run_words import ending_in_words, restart_in_words
from shared.diagnosis.overfitting import FitWatch
from shared.diagnosis.steadiness import steadiness
from shared.diagnosis.verdict import Measured, judge
from shared.run.environment import versions_here
from shared.run.record_numbers import number
from shared.worker.contract import EXIT_FINISHED, EXIT_INTERRUPTED

_MOST_ROWS = 500
BOUND = "Dashed: the most that the queue may hold."
COLOURS_OF_TIME = (
    "Blue: the model process at work. Red: the model process waiting, and what for. Orange: making a "
    "batch and bringing it to the model's device, which goes on at the same time; reading and "
    "decoding are added up over the reader threads."
)

_TONES = {EXIT_FINISHED: "good", EXIT_INTERRUPTED: ""}


def ending(story: RunStory) -> str:
    """How the run ended, if it has."""
    if story.ending is None:
        return ""
    words = ending_in_words(story.ending, str(story.path)).partition("\n")[0]
    return paragraph(words, _TONES.get(story.ending.exit_code, "bad"))


def facts_of(story: RunStory) -> str:
    """How far it came, and how well."""
    pairs: list[tuple[object, str]] = []
    if story.steps:
        last = story.steps[-1]
        # A run that the clock ends is validated after its last step, which is not always logged.
        num_steps = int(max(r["step"] for r in (*story.steps, *story.validations)))
        share = report_series.busy_windows(story)[1]
        pairs += [
            (f"{num_steps:,}", f"steps, epoch {last.get('epoch', '–')}"),
            (clock(story.clock_s[-1]), "from the first to the last logged step"),
            (_rounded(number(last, "loss")), "training loss at the end"),
        ]
        if story.validations:
            best = min(story.validations, key=judged)
            by = judged_by(best).removeprefix("val_")
            words = f"best held-out {by}, step {best['step']:,}"
            pairs.append((_rounded(judged(best)), words))
        if len(share):
            pairs.append(
                (f"{np.median(share):.0%}", f"{story.device('model')} busy (median second)")
            )
        pairs.append((f"{_wait_share(story):.1%}", "of its time waiting for data"))
    pairs += [
        (f"{len(story.quarantine):,}", "examples left out"),
        (f"{len(story.restarts):,}", "restarts of a process"),
    ]
    return facts(pairs)


def _date(time_s: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s))
    except (ValueError, OverflowError, OSError):
        return ""  # no time that can be


def _wait_share(story: RunStory) -> float:
    measured = Measured(story.steps)
    if not measured.is_empty:
        return measured.wait_share
    waited, worked = _total(story, "data_wait_ms"), _total(story, "step_ms")
    return waited / max(1e-9, waited + worked)


def _total(story: RunStory, name: str) -> float:
    records = report_series.after_compilation(story)
    return float(np.nansum([number(record, name) for record in records] or [0.0]))


def steadiness_of(story: RunStory) -> str:
    """How steadily the model side worked, in words."""
    share = report_series.busy_windows(story)[1]
    steady = steadiness(share)
    if not len(share):
        return f"The {story.device('model')} does not say how busy it is."
    if steady is None:
        return f"Too short a run to say how steady the {story.device('model')} was."
    pauses = " Red: where it stood still between two starts." if story.pauses_s else ""
    return (
        f"In a typical second the {story.device('model')} was busy for {steady.middle:.0%} of it; in its "
        f"5% least busy seconds, for {steady.low:.0%} at most: a ratio of {steady.ratio} (1 is "
        f"perfectly steady).{pauses}"
    )


def overfitting(story: RunStory) -> str:
    """Whether it learned its examples by heart, and what helps; empty where it did not."""
    records = sorted(
        (*story.steps, *story.validations), key=lambda each: (each["step"], "step_ms" not in each)
    )
    found = FitWatch(records).overfitting
    if found is None:
        return ""
    words = str(found)
    return paragraph(f"{words[0].upper()}{words[1:]}. {found.advice}.", "bad")


def verdict(story: RunStory) -> str:
    """What the run waited for, in words."""
    found = judge(Measured(story.steps), story.config or Config())
    if found is None:
        return "What the model process waited for was not logged."
    return f"The verdict: {found}."


def quarantine(records: list[dict]) -> str:
    """Every example that is left out."""
    rows = [
        [
            r.get("line", ""),
            r.get("id", ""),
            r.get("path", ""),
            r.get("kind", ""),
            r.get("reason", ""),
            r.get("from_batch", "the start"),
        ]
        for r in records[:_MOST_ROWS]
    ]
    if not rows:
        return section("Left out", paragraph("Every example was used.", "soft"))
    more = _and_more(len(records), "quarantine.jsonl")
    titles = ("line", "id", "file", "kind", "reason", "from batch")
    listed = table(titles, rows)
    return section(
        f"Left out: {len(records):,}",
        listed if len(rows) <= 20 else folded("Every one of them", listed),
        more,
    )


def _and_more(count: int, file: str) -> str:
    """Where the rest of a table is that would be too long for a page."""
    left = count - _MOST_ROWS
    return paragraph(f"… and {left:,} more in {file}.", "soft") if left > 0 else ""


def restarts(story: RunStory) -> str:
    """Every process that was started again."""
    if not story.restarts:
        return section("Restarts", paragraph("No process had to be started again.", "soft"))
    rows = [(_date(event.time_s), restart_in_words(event)) for event in story.restarts[:_MOST_ROWS]]
    return section(
        f"Restarts: {len(story.restarts):,}",
        table(("when", "what happened"), rows),
        _and_more(len(story.restarts), "launcher.log"),
    )


def configuration(story: RunStory) -> str:
    """What is not at its default, and the whole."""
    changed = (
        table(("option", "value", "default"), changed_options(story.config)) if story.config else ""
    )
    whole = folded("config.toml", panel(f"<pre>{text(story.config_text)}</pre>"))
    return section("Configuration", changed, whole)


def changed_options(config: Config) -> list[list[str]]:
    """The options that are not at their defaults."""
    rows, defaults = [], Config()
    for name, kind in SECTIONS.items():
        section_now, section_default = getattr(config, name), getattr(defaults, name)
        for key, rule in rules_of(kind).items():
            now, default = getattr(section_now, key), getattr(section_default, key)
            if rule.saved and now != default:
                rows.append([f"{name}.{key}", _plain(now), _plain(default)])
    return rows


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "–" if value is None else str(value)


def environment(story: RunStory) -> str:
    """Devices and versions."""
    rows = [[f"{role} process", each] for role, names in story.devices.items() for each in names]
    rows += [list(pair) for pair in (story.versions or versions_here()).items()]
    # Of a run from before they were written down.
    remark = (
        paragraph("These are of the machine that wrote this page.", "soft")
        if not story.versions
        else ""
    )
    return section("Devices and versions", table(("what", "which"), rows), remark)


def _rounded(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "not finite"
