"""The live view of a run: two lanes, the queue between them, the loss, the time left."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any, TextIO, cast

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from shared.clock import clock
from shared.console.run_words import tally
from shared.diagnosis.steadiness import steadiness
from shared.run.record_numbers import whole_number
from shared.status.run_status import HISTORY_S, LaneStatus, RunStatus, ShownLines
from shared.worker.contract import SERVING, TRAINING
from shared.worker.names import Role, number_of, role_of
from shared.worker.reports import LineKind

_BARS = "▁▂▃▄▅▆▇█"
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

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class LaneLines:
    """One process's side as text."""

    def __init__(self, label: str, lane: LaneStatus, now_s: float):
        self._label, self._lane, self._now_s = label, lane, now_s

    def head(self) -> Text:
        """Label, share and memory."""
        shares = self._lane.shares
        share = f"{100 * shares[-1]:3.0f} %" if shares else "  – %"
        return Text.assemble(
            self._label.ljust(_LABEL), (share, "bold green"),
            f" {_memory(self._lane.memory_mb):>7}  ",
        )  # fmt: skip

    def tail(self) -> Text:
        """How steady it is, what is cached, and its phase where that is none of working."""
        lane = self._lane
        steady = steadiness(lane.shares)
        tail = Text(f"p5/p50 {steady.ratio if steady else '–'}")
        if lane.cached:
            tail.append(f"  cached {lane.cached:,}/{lane.to_cache:,}")
        if lane.host:
            tail.append(f"  on {lane.host}", "dim")
        if lane.phase not in _WORKING:
            tail.append(f"  {lane.phase} {clock(self._now_s - lane.since_s)}", "yellow")
        return tail

    def history(self, width: int) -> Text:
        recent = self._lane.shares[-width:]
        bars = "".join(_BARS[min(7, int(share * 8))] for share in recent)
        # The latest at the right, so that what stands below each other happened at once.
        return Text(bars.rjust(min(width, HISTORY_S)), "cyan")


class LiveView:
    """Shows a run while it happens; lines that are said scroll above it.

    Whoever has the run's status shows it: the launcher its own, a watcher what it has read.
    """

    def __init__(
        self,
        status: RunStatus,
        console: Console | None = None,
        now: Callable[[], float] = time.time,
        title: str = "tandem",
    ):
        # A stream in all but its class: what it does not do itself is the terminal's.
        self._console = console or Console(file=cast(IO[str], LastingStream(sys.stdout)))
        self._now = now
        self._title = title
        self._status = status
        self._shown = ShownLines(status)
        self._live = Live(
            get_renderable=self.panel, console=self._console, refresh_per_second=2, transient=True
        )
        self._size = self._console.size

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, status: RunStatus) -> None:
        """Take in how the run is now. Step lines are what the view itself shows."""
        self._begin_anew_if_resized()
        self._status = status
        for line in self._shown.new_lines(status):
            if line.kind_of_line is not LineKind.STEP:
                self._console.print(Text(line.text))

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

    def _label(self, worker: str) -> str:
        """data_worker-0 is "data GPU", the second of several "data GPU 1"."""
        role, number = role_of(worker) or Role.DATA, number_of(worker)
        suffix = f" {number}" if number else ""
        device = self._status.data_device if role is Role.DATA else self._status.model_device
        return f"{role} {device}{suffix}"

    def panel(self) -> Panel:
        """Everything, as wide as the terminal is; nothing is left away where that is little."""
        # The terminal's echo of Ctrl-C must fit beside the last line, or it would break it.
        width = min(self._console.width - len("^C"), _WIDEST)
        inner = max(10, width - _FRAME)
        below = [*self._preparing_line(inner), self._queue_line(inner), *self._epoch_line(inner),
                 *self._verdict_lines(), *wrapped(self._numbers(), inner)]  # fmt: skip
        lanes = self._lane_lines(inner, with_history=True)
        if len(lanes) + len(below) + _FRAME > self._console.height:
            lanes = self._lane_lines(inner, with_history=False)  # numbers say more than bars
        return Panel(Group(*lanes, *below), title=self._title, border_style="dim", width=width)

    def _lane_lines(self, width: int, with_history: bool) -> list[Text]:
        """The lanes, each in as few lines as it fits; the histories of all equally wide."""
        now_s = self._now()
        each = [LaneLines(self._label(lane.worker), lane, now_s) for lane in self._status.lanes]
        lanes = [(lane, lane.head(), lane.tail()) for lane in each]
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
        """The queue between the sides; where each replica has its own, the bar is the shortest."""
        others = (lane.queue_depth for lane in self._status.lanes)
        depths = [self._status.queue_depth, *(depth for depth in others if depth is not None)]
        bound = self._status.buffer_size
        words = " ".join(f" {depth}/{bound}" for depth in depths)
        return _bar("queue", min(depths) / max(1, bound), words, width)

    def _preparing_line(self, width: int) -> list[Text]:
        preparing = self._status.preparing
        if preparing is None:
            return []
        words = preparing.what or "looking at the data"
        count = f" {preparing.done:,}/{preparing.total:,}" if preparing.total else ""
        return [Text(f"{words}{count}"[:width], "yellow")]

    def _epoch_line(self, width: int) -> list[Text]:
        outlook = self._status.outlook
        if outlook is None:
            return []
        done, left_s = outlook.epoch_done, self._left(outlook.epoch_left_s)
        label = f"epoch {whole_number(self._status.record, 'epoch')}"
        return [_bar(label, done, f" {done:.0%}, {clock(left_s)} left", width)]

    def _left(self, left_s: float) -> float:
        """Of a time that was true when the last numbers came."""
        return max(0.0, left_s - max(0.0, self._now() - self._status.told_s))

    def _verdict_lines(self) -> list[Text]:
        outlook = self._status.outlook
        if outlook is None or not outlook.verdict:
            return []
        lines = [Text(outlook.verdict, "bold yellow" if outlook.is_waiting else "green")]
        return [*lines, Text(outlook.remark, "bold yellow")] if outlook.remark else lines

    def _numbers(self) -> list[str]:
        status = self._status
        record, outlook = status.record, status.outlook
        elapsed, problems = clock(self._now() - status.started_s), tally(status)
        if outlook is None:
            return [problems, f"elapsed {elapsed}"]
        parts = [f"step {whole_number(record, 'step')}"]
        if outlook.total_steps:
            about = "~" if outlook.total_is_estimate else ""
            parts[0] += f"/{about}{outlook.total_steps}"
        if status.loss is not None:
            parts.append(f"loss {status.loss:.3f} {status.loss_trend}".rstrip())
        if status.val_loss is not None:
            parts.append(f"validation {status.val_loss:.3f}")
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
