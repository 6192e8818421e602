"""What a data process is at, as the launcher is told: what has moved, and what may take long."""

from __future__ import annotations

import time

from shared.worker.contract import SERVING
from shared.worker.reports import Reporter

_TELL_EVERY_S = 0.5
_SERVING_DEADLINE_S = 8.0
_COMPUTING_DEADLINE_S = 600.0


class Movement:
    """Counts what has really moved; the launcher takes a standing count for a hang."""

    def __init__(self, reporter: Reporter):
        self._reporter = reporter
        self._count = self._told = 0
        self._told_s = -_TELL_EVERY_S

    def note(self) -> None:
        self._count += 1

    def serves(self) -> None:
        """Nothing here takes long from now on."""
        self._reporter.phase(SERVING, _SERVING_DEADLINE_S)

    def long_work(self, begins: bool) -> None:
        """A graph is being made, or a large batch: that may take long, and is no hang."""
        if begins:
            self._reporter.phase("computing features", _COMPUTING_DEADLINE_S)
        else:
            self.serves()

    def tell(self, idle: bool) -> None:
        """Report, if anything has moved or there is nothing to do; the first movement at once."""
        if not idle and self._count == self._told:
            return
        now_s = time.monotonic()
        if self._told and now_s - self._told_s < _TELL_EVERY_S:
            return  # the launcher's time is the model's too, where they share a core
        self._told, self._told_s = self._count, now_s
        self._reporter.progress(self._count)
