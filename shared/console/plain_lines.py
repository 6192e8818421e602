"""A run's story in plain lines, where there is no terminal for the live view to be drawn on."""

from __future__ import annotations

from collections.abc import Callable

from shared.status.run_status import RunStatus, ShownLines
from shared.worker.contract import COMPILING


class PlainLines:
    """Shows the lines that are said, and what a silence is about."""

    def __init__(self, print_line: Callable[[str], None], status: RunStatus):
        """`status`: its lines were shown already."""
        self._print = print_line
        self._compiling: set[str] = set()
        self._shown = ShownLines(status)

    def show(self, status: RunStatus) -> None:
        """Show what is new."""
        for lane in status.lanes:
            if lane.phase == COMPILING and lane.worker not in self._compiling:
                self._compiling.add(lane.worker)
                self._print(f"⏳ {lane.worker}: compiling; on a GPU this can take a minute or two")
        for line in self._shown.new_lines(status):
            self._print(line.text)
