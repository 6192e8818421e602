"""A run's story in plain lines, where there is no terminal for the live view to be drawn on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from shared.console.tally import Tally
from shared.diagnosis.steadiness import steadiness
from shared.run.event_log import Restarted
from shared.worker.contract import COMPILING
from shared.worker.reports import Busy, LineKind, Phase, Report

_WINDOWS = 120


class PlainLines:
    """Adds to the model process's step lines what only the launcher knows."""

    def __init__(self, show: Callable[[str], None], left_out: int):
        self._show = show
        self._tally = Tally(left_out)
        self._compiling: set[str] = set()
        self._shares: dict[str, deque[float]] = {}  # by data process
        self._memory_mb: dict[str, int] = {}

    def say(self, text: str, kind: LineKind = LineKind.STORY) -> None:
        """Show a line; one of the steps with everything else that a person looks for."""
        self._tally.note_line(kind)
        is_step = kind is LineKind.STEP
        self._show(f"{text} · {self._data_side()}{self._tally}" if is_step else text)

    def event(self, event: Restarted) -> None:
        """Take in that a worker was replaced."""
        self._tally.note_restart()

    def report(self, worker: str, report: Report) -> None:
        """Take in what a worker has told the launcher."""
        if isinstance(report, Phase) and report.name == COMPILING:
            if worker not in self._compiling:
                self._compiling.add(worker)
                self.say(f"⏳ {worker}: compiling; on a GPU this can take a minute or two")
        elif isinstance(report, Busy) and worker.startswith("data_worker"):
            self._shares.setdefault(worker, deque(maxlen=_WINDOWS)).append(report.share)
            self._memory_mb[worker] = report.memory_mb

    def _data_side(self) -> str:
        sides = []
        for worker, shares in sorted(self._shares.items()):
            steady = steadiness(shares)
            ratio = steady.ratio if steady else "–"
            sides.append(f"{worker} {self._memory_mb[worker]} MB, p5/p50 {ratio} · ")
        return "".join(sides)
