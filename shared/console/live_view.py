"""The live view of a run: two lanes, the queue between them, the loss, the time left."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from shared.clock import clock
from shared.console.numbers import number, whole_number
from shared.console.tally import Tally
from shared.diagnosis.steadiness import steadiness
from shared.diagnosis.trend import trend
from shared.run.event_log import Restarted
from shared.worker.contract import SERVING, STARTING, TRAINING
from shared.worker.reports import Busy, LineKind, Metrics, Outlook, Phase, Report

_BARS = "▁▂▃▄▅▆▇█"
_HISTORY_S = 120
_LOSSES = 400
_WIDEST = 124
_FRAME = 4  # columns of the panel's own
_LABEL = 11
_SMALLEST_HISTORY = 8
_WORKING = (TRAINING, SERVING)  # phases that the shares say all about


class LastingStream:
    """A terminal that may go away: what can't be shown any more is dropped, the run goes on."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str):
        return getattr(self._stream, name)


class Lane:
    """One process's side: its busy share over time, its memory, what it is doing."""

    def __init__(self, label: str, now: Callable[[], float]):
        self.label = label
        self._now = now
        self.shares: deque[float] = deque(maxlen=_HISTORY_S)
        self.memory_mb = 0
        self.cached = self.to_cache = 0  # examples whose features need not be made again, of all
        self._phase, self._since_s = STARTING, now()

    def enter(self, phase: str) -> None:
        if phase != self._phase:
            self._phase, self._since_s = phase, self._now()

    def head(self) -> Text:
        """Label, share and memory."""
        share = f"{100 * self.shares[-1]:3.0f} %" if self.shares else "  – %"
        return Text.assemble(
            self.label.ljust(_LABEL), (share, "bold green"), f" {_memory(self.memory_mb):>7}  "
        )

    def tail(self) -> Text:
        """How steady it is, what is cached, and its phase where that is none of working."""
        steady = steadiness(self.shares)
        tail = Text(f"p5/p50 {steady.ratio if steady else '–'}")
        if self.cached:
            tail.append(f"  cached {self.cached:,}/{self.to_cache:,}")
        if self._phase not in _WORKING:
            tail.append(f"  {self._phase} {clock(self._now() - self._since_s)}", "yellow")
        return tail

    def history(self, width: int) -> Text:
        recent = list(self.shares)[-width:]
        bars = "".join(_BARS[min(7, int(share * 8))] for share in recent)
        # The latest at the right, so that what stands below each other happened at once.
        return Text(bars.rjust(min(width, _HISTORY_S)), "cyan")


class LiveView:
    """Shows a run while it happens; lines that are said scroll above it."""

    def __init__(
        self,
        buffer_size: int,
        started_s: float,
        data_device: str = "GPU",
        model_device: str = "GPU",
        left_out: int = 0,
        console: Console | None = None,
        now: Callable[[], float] = time.time,
    ):
        self._console = console or Console(file=LastingStream(sys.stdout))
        self._buffer_size = buffer_size
        self._started_s = started_s
        self._devices = {"data": data_device, "model": model_device}
        self._now = now
        self._lanes: dict[str, Lane] = {}
        self._record: dict[str, Any] = {}  # of the last step that was logged
        self._outlook: Outlook | None = None
        self._told_s = now()
        self._queue_depth = 0
        self._losses: deque[float] = deque(maxlen=_LOSSES)
        self._val_loss: float | None = None
        self._tally = Tally(left_out)
        self._live = Live(
            get_renderable=self.panel, console=self._console, refresh_per_second=2, transient=True
        )
        self._size = self._console.size

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *failure) -> None:
        self._live.__exit__(*failure)

    def say(self, text: str, kind: LineKind = LineKind.STORY) -> None:
        """A line of the run's story. Step lines are what the view itself shows."""
        self._tally.note_line(kind)
        if kind is not LineKind.STEP:
            self._console.print(Text(text))

    def event(self, event: Restarted) -> None:
        """Take in that a worker was replaced."""
        self._tally.note_restart()

    def _begin_anew_if_resized(self) -> None:
        """Clear the screen of a terminal that has wrapped the view's old lines anew."""
        size = self._console.size
        if size == self._size:
            return
        self._size = size
        if self._live.is_started:
            self._live.stop()
            self._console.clear()
            self._live.start(refresh=True)

    def report(self, worker: str, report: Report) -> None:
        """Take in what a worker has told the launcher; others, such as a spare, have no lane."""
        self._begin_anew_if_resized()
        if "_worker" not in worker:
            return
        lane = self._lanes.setdefault(worker, Lane(self._label(worker), self._now))
        if isinstance(report, Phase):
            lane.enter(report.name)
        elif isinstance(report, Busy):
            lane.shares.append(report.share)
            lane.memory_mb = report.memory_mb
            lane.cached, lane.to_cache = report.cached, report.to_cache
            if report.queue_depth is not None:
                self._queue_depth = report.queue_depth
        elif isinstance(report, Metrics):
            self._take_numbers(report)

    def _take_numbers(self, report: Metrics) -> None:
        validation, loss = number(report.record, "val_loss"), number(report.record, "loss")
        if report.outlook is None:
            self._val_loss = validation if math.isfinite(validation) else self._val_loss
            return
        self._record, self._outlook, self._told_s = report.record, report.outlook, self._now()
        self._queue_depth = whole_number(report.record, "queue_depth")
        if math.isfinite(loss):
            self._losses.append(loss)

    def _label(self, worker: str) -> str:
        """data_worker-0 is "data GPU", the second of several "data GPU 1"."""
        role, _, number = worker.partition("_worker")
        number = number.strip("-")
        suffix = f" {number}" if number not in ("", "0") else ""
        return f"{role} {self._devices.get(role, '')}{suffix}"

    def panel(self) -> Panel:
        """Everything, as wide as the terminal is; nothing is left away where that is little."""
        # The terminal's echo of Ctrl-C must fit beside the last line, or it would break it.
        width = min(self._console.width - len("^C"), _WIDEST)
        inner = max(10, width - _FRAME)
        below = [self._queue_line(inner), *self._epoch_line(inner), *self._verdict_lines(),
                 *wrapped(self._numbers(), inner)]  # fmt: skip
        lanes = self._lane_lines(inner, with_history=True)
        if len(lanes) + len(below) + _FRAME > self._console.height:
            lanes = self._lane_lines(inner, with_history=False)  # numbers say more than bars
        return Panel(Group(*lanes, *below), title="tandem", border_style="dim", width=width)

    def _lane_lines(self, width: int, with_history: bool) -> list[Text]:
        """The lanes, each in as few lines as it fits; the histories of all equally wide."""
        lanes = [(lane, lane.head(), lane.tail()) for _, lane in sorted(self._lanes.items())]
        room = min((width - h.cell_len - t.cell_len - 2 for _, h, t in lanes), default=0)
        if with_history and room >= _SMALLEST_HISTORY:
            return [head + lane.history(room) + Text("  ") + tail for lane, head, tail in lanes]
        lines = []
        for lane, head, tail in lanes:
            fits = head.cell_len + tail.cell_len <= width
            lines += [head + tail] if fits else [head, tail]
            lines += [lane.history(width)] if with_history else []
        return lines

    def _queue_line(self, width: int) -> Text:
        count = f" {self._queue_depth}/{self._buffer_size}"
        return _bar("queue", self._queue_depth / max(1, self._buffer_size), count, width)

    def _epoch_line(self, width: int) -> list[Text]:
        if self._outlook is None:
            return []
        done, left_s = self._outlook.epoch_done, self._left(self._outlook.epoch_left_s)
        label = f"epoch {whole_number(self._record, 'epoch')}"
        return [_bar(label, done, f" {done:.0%}, {clock(left_s)} left", width)]

    def _left(self, left_s: float) -> float:
        """Of a time that was true when the last numbers came."""
        return max(0.0, left_s - (self._now() - self._told_s))

    def _verdict_lines(self) -> list[Text]:
        outlook = self._outlook
        if outlook is None or not outlook.verdict:
            return []
        return [Text(outlook.verdict, "bold yellow" if outlook.is_waiting else "green")]

    def _numbers(self) -> list[str]:
        record, outlook = self._record, self._outlook
        elapsed, problems = clock(self._now() - self._started_s), str(self._tally)
        if outlook is None:
            return [problems, f"elapsed {elapsed}"]
        parts = [f"step {whole_number(record, 'step')}"]
        if outlook.total_steps:
            about = "~" if outlook.total_is_estimate else ""
            parts[0] += f"/{about}{outlook.total_steps}"
        if self._losses:
            parts.append(f"loss {self._losses[-1]:.3f} {trend(self._losses)}".rstrip())
        if self._val_loss is not None:
            parts.append(f"validation {self._val_loss:.3f}")
        if outlook.steps_per_s:
            parts.append(f"{outlook.steps_per_s:.2f} steps/s")
        unit = str(record.get("unit") or "examples")
        parts.append(f"{whole_number(record, 'amount_per_s')} {unit}/s")
        parts += [problems, f"elapsed {elapsed}"]
        if outlook.steps_per_s:
            parts.append(f"left {clock(self._left(outlook.left_s))}")
        return parts


def _memory(megabytes: int) -> str:
    if not megabytes:
        return "– MB"
    return f"{megabytes / 1024:.1f} GB" if megabytes >= 1000 else f"{megabytes} MB"


def _bar(label: str, share: float, words: str, width: int) -> Text:
    """A bar between a label and words, in one line; its words go below where there is no room."""
    room = min(60, width - _LABEL - len(words))
    below = room < 6
    cells = max(1, width - _LABEL) if below else room
    filled = min(cells, round(cells * share))
    text = label.ljust(_LABEL) + "█" * filled + "░" * (cells - filled)
    return Text(text + ("\n" + words.strip() if below else words))


def wrapped(parts: list[str], width: int) -> list[Text]:
    """Parts joined by dots, as many in a line as fit; none is lost at any width."""
    lines, line = [], ""
    for part in parts:
        joined = f"{line} · {part}" if line else part
        if line and len(joined) > width:
            lines.append(line)
            joined = part
        line = joined
    return [Text(text) for text in [*lines, line]]
