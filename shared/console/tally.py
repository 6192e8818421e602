"""What has gone wrong in a run so far, counted from its reports and events."""

from __future__ import annotations

from shared.worker.reports import LineKind


class Tally:
    """Examples that are left out, and processes that were started again."""

    def __init__(self, left_out: int):
        """`left_out`: those that the preparation named."""
        self._left_out, self._restarts = left_out, 0

    def note_line(self, kind: LineKind) -> None:
        """Count a line that was said, if it tells of an example that is left out."""
        self._left_out += kind is LineKind.LEFT_OUT

    def note_restart(self) -> None:
        self._restarts += 1

    def __str__(self) -> str:
        return f"left out {self._left_out} · restarts {self._restarts}"
