"""The parts of the page that are words: made here, put into their places by the page's script."""

from __future__ import annotations

import time
from collections.abc import Sequence

from shared.clock import clock
from shared.config.option import rules_of
from shared.config.settings import SECTIONS
from shared.console import report_sections
from shared.console.page import facts, folded, panel, paragraph, section, table, text
from shared.console.run_story import RunStory
from shared.console.run_words import state_in_words
from shared.console.web.live_runs import LiveRun
from shared.devices.words import share_in_words
from shared.diagnosis.steadiness import steadiness
from shared.run.record_numbers import whole_number
from shared.status.run_state import RunState, State
from shared.status.run_status import HISTORY_S, LaneStatus, RunStatus
from shared.status.summary import RunSummary, left_s
from shared.worker.contract import SERVING, TRAINING
from shared.worker.names import Role, number_of, role_of
from shared.worker.reports import LineKind

_TONES = {State.FAILED: "bad", State.FINISHED: "good", State.TRAINING: "good"}
_LINES = 12
GONE = "This run is not there any more: its folder was moved or deleted."


def chip(state: State | str) -> str:
    """A state in a box."""
    tone = _TONES.get(state, "") if isinstance(state, State) else "bad"
    return f'<span class="chip {tone}">{text(state)}</span>'


def now_of(run: LiveRun) -> dict[str, str]:
    """What changes every second, by the place that it belongs into."""
    if not run.is_there:
        return {"state": chip("not there"), "words": paragraph(GONE, "bad"), "now": "", "lines": ""}
    found = run.state()
    words = "" if found.state.is_going_on else _first_line(found, run)
    tone = _TONES.get(found.state, "soft")
    goes_on = found.state.is_going_on and found.status is not None
    return {
        "state": chip(found.state),
        "words": paragraph(words, tone) if words else "",
        "now": _now(found, found.status) if goes_on and found.status else "",
        "lines": _lines(found.status) if found.status else "",
    }


def _first_line(found: RunState, run: LiveRun) -> str:
    return state_in_words(found, str(run.directory.path)).partition("\n")[0]


def _now(found: RunState, status: RunStatus) -> str:
    record, outlook = status.record, status.outlook
    pairs: list[tuple[object, str]] = []
    if status.preparing is not None:
        how_far = status.preparing
        count = f"{how_far.done:,}/{how_far.total:,}" if how_far.total else "…"
        pairs.append((count, how_far.what or "looking at the data"))
    if outlook is not None:
        about = "~" if outlook.total_is_estimate else ""
        total = f" of {about}{outlook.total_steps:,}" if outlook.total_steps else ""
        pairs.append((f"{whole_number(record, 'step'):,}", f"steps{total}"))
        left = left_s(found)
        if left is not None:
            pairs.append((clock(left), "left"))
        if status.loss is not None:
            pairs.append((f"{status.loss:.3f} {status.loss_trend}".rstrip(), "training loss"))
        if status.val_loss is not None:
            pairs.append((f"{status.val_loss:.3f}", "validation loss"))
        if outlook.steps_per_s:
            unit = str(record.get("unit") or "examples")
            speed = f"{whole_number(record, 'amount_per_s'):,} {unit} a second"
            pairs.append((f"{outlook.steps_per_s:.2f}", f"steps a second, {speed}"))
    pairs.append((clock(time.time() - status.started_s), "since it was started"))
    bars = [_meter("queue", status.queue_depth, status.buffer_size,
                   f"{status.queue_depth} of {status.buffer_size} batches")]  # fmt: skip
    if outlook is not None:
        epoch = whole_number(record, "epoch")
        bars.append(
            _meter(f"epoch {epoch}", outlook.epoch_done, 1.0,
                   f"{outlook.epoch_done:.0%}, {clock(outlook.epoch_left_s)} left")
        )  # fmt: skip
    lanes = "".join(_lane(lane, status) for lane in status.lanes)
    tone = "waits" if outlook and outlook.is_waiting else "good"
    verdict = paragraph(outlook.verdict, tone) if outlook and outlook.verdict else ""
    verdict += paragraph(outlook.remark, "bad") if outlook and outlook.remark else ""
    return facts(pairs) + panel(f'<div class="lanes">{lanes}{"".join(bars)}</div>{verdict}')


def _lane(lane: LaneStatus, status: RunStatus) -> str:
    """One side: its last two minutes, how busy it is, its memory and how steady it is."""
    role, number = role_of(lane.worker) or Role.DATA, number_of(lane.worker)
    side = "data" if role is Role.DATA else "model"
    device = status.data_device if role is Role.DATA else status.model_device
    label = f"{side} {device}" + (f" {number}" if number else "")
    share = share_in_words(lane.shares[-1] if lane.shares else None)
    more = [f"{lane.memory_mb / 1024:.1f} GB"] if lane.memory_mb else []
    steady = steadiness(lane.shares)
    if steady:
        more.append(f"p5/p50 {steady.ratio}")
    if lane.cached:
        more.append(f"cached {lane.cached:,}/{lane.to_cache:,}")
    if lane.host:
        more.append(f"on {lane.host}")
    if lane.phase not in (TRAINING, SERVING):
        more.append(lane.phase)
    bars = "".join(
        f"M{HISTORY_S - len(lane.shares) + at} 30v-{max(0.3, 30 * min(1.0, value)):.1f}"
        for at, value in enumerate(lane.shares)
    )
    drawing = (
        f'<svg class="history" viewBox="0 0 {HISTORY_S} 30" preserveAspectRatio="none" '
        f'role="img" aria-label="{text(label)}, the last two minutes">'
        f'<path d="{bars}" stroke="var(--{side})" stroke-width="0.8" fill="none"/></svg>'
    )
    return (
        f'<div class="lane"><b>{text(label)}</b><span class="share">{share}</span>{drawing}'
        f'<span class="soft">{text(" · ".join(more))}</span></div>'
    )


def _meter(label: str, value: float, bound: float, words: str) -> str:
    share = max(0.0, min(1.0, value / bound)) if bound else 0.0
    return (
        f'<div class="lane"><b>{text(label)}</b><span class="share"></span><div class="meter">'
        f'<i style="width:{100 * share:.1f}%"></i></div><span class="soft">{text(words)}</span></div>'
    )


def _lines(status: RunStatus) -> str:
    """The last of what was said, the newest first."""
    said = [line for line in status.lines if line.kind_of_line is not LineKind.STEP][-_LINES:]
    if not said:
        return ""
    shown = "\n".join(
        f"{time.strftime('%H:%M:%S', time.localtime(line.time_s))} {_without_sign(line.text.strip())}"
        for line in reversed(said)
    )
    return folded("What was said last", panel(f'<pre class="said">{text(shown)}</pre>'), True)


def _without_sign(line: str) -> str:
    """A line of the terminal without the sign that catches the eye there, if it has one."""
    sign, _, words = line.partition(" ")
    return words.lstrip() if sign and not sign[0].isalnum() else line


def story_parts(story: RunStory) -> dict[str, str]:
    """The parts of the report that are words and tables."""
    return {
        "facts": report_sections.facts_of(story),
        "tables": report_sections.quarantine(story.quarantine)
        + report_sections.restarts(story)
        + report_sections.configuration(story)
        + report_sections.environment(story),
    }


def list_of(runs: Sequence[LiveRun]) -> str:
    """The runs below each other, each leading to its own page."""
    rows = "".join(_row(number, run) for number, run in enumerate(runs))
    titles = "".join(f"<th>{title}</th>" for title in ("", "run", "state"))
    titles += "".join(
        f'<th class="number">{title}</th>'
        for title in ("step", "loss", "validation", "left", "disk")
    )
    return panel(f'<div class="wide"><table><tr>{titles}</tr>{rows}</table></div>')


def _row(number: int, run: LiveRun) -> str:
    if not run.is_there:
        return f'<tr><td></td><td>{text(run.name)}</td><td colspan="6">{text(GONE)}</td></tr>'
    each: RunSummary = run.summary()
    cells = (
        "" if each.step is None else f"{each.step:,}",
        "" if each.loss is None else f"{each.loss:.3f}",
        "" if each.val_loss is None else f"{each.val_loss:.3f}",
        "" if each.left_s is None else clock(each.left_s),
        f"{each.disk_bytes / 2**20:,.0f} MB",
    )
    numbers = "".join(f'<td class="number">{text(cell)}</td>' for cell in cells)
    box = f'<input type="checkbox" data-run="{number}" aria-label="compare {text(run.name)}">'
    link = f'<a href="?run={number}">{text(run.name)}</a>'
    return f"<tr><td>{box}</td><td>{link}</td><td>{chip(each.state)}</td>{numbers}</tr>"


def differing(stories: Sequence[RunStory]) -> str:
    """The flags that are not the same in all of these runs."""
    configs = [story.config for story in stories]
    if len(stories) < 2 or None in configs:
        return ""
    rows = []
    for name, kind in SECTIONS.items():
        for key, rule in rules_of(kind).items():
            values = [str(getattr(getattr(config, name), key)) for config in configs]
            if rule.saved and key != "run_id" and len(set(values)) > 1:
                rows.append([rule.flag, *("–" if value == "None" else value for value in values)])
    if not rows:
        return section(
            "Flags that differ", paragraph("None: these runs were told the same.", "soft")
        )
    return section("Flags that differ", table(("flag", *(s.name for s in stories)), rows))
