"""The live view of a run in the terminal: two lanes, the queue between them, the loss, the time left."""

from __future__ import annotations

import time
from collections import deque

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

_BARS = " ▁▂▃▄▅▆▇█"
_HISTORY = 120
_LOSSES = 400


class Lane:
    """One side's busy share over time."""

    def __init__(self) -> None:
        self.shares: deque[float] = deque(maxlen=_HISTORY)
        self.phase = "starting"

    def steadiness(self) -> str:
        """The measure of oscillation: p5 / p50 of the one-second windows."""
        if len(self.shares) < 5:
            return "–"
        low, middle = np.percentile(self.shares, [5, 50])
        return f"{low / middle:.2f}" if middle > 0 else "–"

    def history(self, width: int) -> str:
        recent = list(self.shares)[-width:]
        return "".join(_BARS[min(8, round(share * 8))] for share in recent).rjust(width)


class LiveView:
    """Shows a run while it happens; lines that are said scroll above it."""

    def __init__(self, buffer_size: int, total_steps: int | None, started_s: float):
        self._console = Console()
        self._buffer_size = buffer_size
        self._total_steps = total_steps
        self._started_s = started_s
        self._lanes: dict[str, Lane] = {}
        self._metrics: dict = {}
        self._queue_depth = 0
        self._losses: deque[float] = deque(maxlen=_LOSSES)
        self._val_loss: float | None = None
        self._restarts = self._left_out = 0
        self._live = Live(
            get_renderable=self._render, console=self._console, refresh_per_second=2, transient=True
        )

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *failure) -> None:
        self._live.__exit__(*failure)

    def say(self, text: str) -> None:
        """A line of the run's story. Step lines are what the view itself shows."""
        if "starting it again" in text or "takes over" in text:
            self._restarts += 1
        if text.startswith("⚠️  Left out"):
            self._left_out += 1
        if not text.startswith("   step "):
            self._console.print(Text(text))

    def report(self, worker: str, report: dict) -> None:
        """Take in what a worker has told the launcher."""
        lane = self._lanes.setdefault(worker, Lane())
        kind = report.get("kind")
        if kind == "phase":
            lane.phase = str(report.get("name"))
        elif kind == "busy":
            lane.shares.append(float(report.get("share", 0)))
            self._queue_depth = int(report.get("queue_depth", self._queue_depth))
        elif kind == "metrics" and report.get("loss") is not None:
            self._metrics = report
            self._queue_depth = int(report.get("queue_depth", 0))
            self._losses.append(float(report["loss"]))
        elif kind == "metrics":
            self._val_loss = report.get("val_loss", self._val_loss)

    def _render(self) -> Panel:
        width = self._console.width
        table = Table.grid(padding=(0, 1), expand=False)
        for name, lane in sorted(self._lanes.items()):
            share = f"{100 * lane.shares[-1]:3.0f} %" if lane.shares else "  – %"
            label = name.replace("_worker", " GPU")
            cells = [label, Text(share, style="bold green")]
            if width >= 60:
                cells += [Text(lane.history(max(10, min(60, width - 46))), style="cyan")]
                cells += [f"steady {lane.steadiness()}", Text(lane.phase, style="dim")]
            table.add_row(*cells)
        return Panel(
            Group(table, self._queue_line(width), *self._number_lines(width)),
            title="tandem", border_style="dim", width=min(width, 120),
        )  # fmt: skip

    def _queue_line(self, width: int) -> Text:
        cells = max(8, min(50, width - 30))
        filled = min(cells, round(cells * self._queue_depth / max(1, self._buffer_size)))
        bar = "█" * filled + "░" * (cells - filled)
        return Text(f"queue {bar} {self._queue_depth}/{self._buffer_size}")

    def _number_lines(self, width: int) -> list[Text]:
        metrics = self._metrics
        elapsed = _clock(time.time() - self._started_s)
        if not metrics:
            return [Text(f"elapsed {elapsed}")]
        step = int(metrics["step"])
        parts = [
            f"step {step}" + (f"/{self._total_steps}" if self._total_steps else ""),
            f"epoch {metrics['epoch']}",
            f"loss {metrics['loss']:.3f} {self._trend()}",
        ]
        if self._val_loss is not None:
            parts.append(f"validation {self._val_loss:.3f}")
        seconds = (metrics["step_ms"] + metrics["data_wait_ms"]) / 1000
        parts.append(f"{1 / max(seconds, 1e-9):.1f} batches/s")
        parts.append(f"{metrics['audio_seconds_per_s']:.0f} h of audio/h")
        waited = metrics["data_wait_ms"] / max(1e-9, metrics["step_ms"] + metrics["data_wait_ms"])
        parts.append(f"waited {100 * waited:.0f} %")
        parts.append(f"left out {self._left_out} · restarts {self._restarts}")
        parts.append(f"elapsed {elapsed}")
        if self._total_steps:
            parts.append(f"left {_clock((self._total_steps - step) * seconds)}")
        return _wrapped(parts, max(20, min(width, 120) - 4))

    def _trend(self) -> str:
        if len(self._losses) < 8:
            return ""
        half = len(self._losses) // 2
        losses = list(self._losses)
        change = np.mean(losses[half:]) - np.mean(losses[:half])
        return "↘" if change < 0 else "↗"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(max(0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def _wrapped(parts: list[str], width: int) -> list[Text]:
    """Parts joined by dots, as many in a line as fit; none is lost at any width."""
    lines, line = [], ""
    for part in parts:
        joined = f"{line} · {part}" if line else part
        if line and len(joined) > width:
            lines.append(line)
            joined = part
        line = joined
    return [Text(text) for text in [*lines, line]]
