"""A run's story in plain lines, where there is no terminal for the live view to be drawn on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from shared.console.tally import Tally
from shared.diagnosis.steadiness import steadiness

_WINDOWS = 120


class PlainLines:
    """Adds to the model process's step lines what only the launcher knows."""

    def __init__(self, show: Callable[[str], None], left_out: int):
        self._show = show
        self._tally = Tally(left_out)
        self._compiling: set[str] = set()
        self._shares: dict[str, deque[float]] = {}  # by data process
        self._memory_mb: dict[str, int] = {}

    def say(self, text: str) -> None:
        """Show a line; one of the steps with everything else that a person looks for."""
        self._tally.note(text)
        self._show(f"{text} · {self._data_side()}{self._tally}" if is_step(text) else text)

    def report(self, worker: str, report: dict) -> None:
        """Take in what a worker has told the launcher."""
        kind = report.get("kind")
        if kind == "phase" and report.get("name") == "compiling" and worker not in self._compiling:
            self._compiling.add(worker)
            self.say(f"⏳ {worker}: compiling; on a GPU this can take a minute or two")
        elif kind == "busy" and worker.startswith("data_worker"):
            shares = self._shares.setdefault(worker, deque(maxlen=_WINDOWS))
            shares.append(float(report.get("share", 0)))
            self._memory_mb[worker] = int(report.get("memory_mb", 0))

    def _data_side(self) -> str:
        sides = []
        for worker, shares in sorted(self._shares.items()):
            steady = steadiness(shares)
            ratio = steady.ratio if steady else "–"
            sides.append(f"{worker} {self._memory_mb[worker]} MB, p5/p50 {ratio} · ")
        return "".join(sides)


def is_step(text: str) -> bool:
    """Whether a line is one of those that tell how far the run is."""
    return text.startswith("   step ")
