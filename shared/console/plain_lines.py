"""A run's story in plain lines, where there is no terminal for the live view to be drawn on."""

from __future__ import annotations

from collections.abc import Callable

from shared.console.run_words import tally
from shared.devices.words import megabytes_in_words
from shared.diagnosis.steadiness import steadiness
from shared.status.run_status import LaneStatus, RunStatus, ShownLines
from shared.worker.contract import COMPILING
from shared.worker.names import Role, role_of
from shared.worker.reports import LineKind


class PlainLines:
    """Adds to the model process's step lines what only the launcher knows."""

    def __init__(self, print_line: Callable[[str], None], status: RunStatus):
        """`status`: its lines were shown already."""
        self._print = print_line
        self._compiling: set[str] = set()
        self._shown = ShownLines(status)

    def show(self, status: RunStatus) -> None:
        """Show what is new; a line of the steps with everything else that a person looks for."""
        for lane in status.lanes:
            if lane.phase == COMPILING and lane.worker not in self._compiling:
                self._compiling.add(lane.worker)
                self._print(f"⏳ {lane.worker}: compiling; on a GPU this can take a minute or two")
        for line in self._shown.new_lines(status):
            is_step = line.kind_of_line is LineKind.STEP
            data_side = "".join(map(_data_side, status.lanes))
            self._print(f"{line.text} · {data_side}{tally(status)}" if is_step else line.text)


def _data_side(lane: LaneStatus) -> str:
    if role_of(lane.worker) is not Role.DATA or not (lane.shares or lane.memory_mb):
        return ""
    steady = steadiness(lane.shares)
    return f"{lane.worker} {megabytes_in_words(lane.memory_mb)}, p5/p50 {steady.ratio if steady else '–'} · "
