"""What has gone wrong in a run so far, counted from the lines of its story."""

from __future__ import annotations


class Tally:
    """Utterances that are left out, and processes that were started again."""

    def __init__(self, left_out: int):
        """`left_out`: those that the preparation named."""
        self._left_out, self._restarts = left_out, 0

    def note(self, text: str) -> None:
        """Count what a line tells."""
        if "starting it again" in text or "takes over" in text:
            self._restarts += 1
        if text.startswith("⚠️  Left out"):
            self._left_out += 1

    def __str__(self) -> str:
        return f"left out {self._left_out} · restarts {self._restarts}"
