"""How fast something goes: counted after a warm-up, between two of its own beats."""

from __future__ import annotations

import time
from collections.abc import Callable

WARM_UP_SHARE = 1 / 6  # of a measurement's length, before it
WARM_UP_BATCHES_PER_SHAPE = 3  # before the first measurement; they come in random order


class PaceMeter:
    """Counts batches for a number of seconds, the warm-up before them not counted."""

    def __init__(self, seconds: float, unit: str, clock: Callable[[], float] = time.monotonic):
        """`unit`: what the amounts are counted in, such as "pictures"."""
        self._unit = unit
        self._seconds = seconds
        self._clock = clock
        self._first_s: float | None = None  # of the warm-up
        self._began_s: float | None = None
        self._last_s = 0.0
        self._num_batches = 0
        self._amount = 0.0
        self._longest_gap_s = 0.0
        self._busy: list[float] = []

    @property
    def is_over(self) -> bool:
        return self._began_s is not None and self._last_s - self._began_s >= self._seconds

    def note(self, amount: float) -> None:
        """A batch that holds so much is done."""
        now_s = self._clock()
        if self._first_s is None:
            self._first_s = now_s
        if self._began_s is None:
            if now_s - self._first_s >= self._seconds * WARM_UP_SHARE:
                self._began_s = self._last_s = now_s
                self._busy.clear()
            return
        self._num_batches += 1
        self._amount += amount
        self._longest_gap_s = max(self._longest_gap_s, now_s - self._last_s)
        self._last_s = now_s

    def note_busy(self, share: float) -> None:
        """The busy share of the device over the last second."""
        self._busy.append(share)

    def pace(self) -> dict:
        """What was measured, as plain numbers."""
        measured_s = max(1e-9, self._last_s - (self._began_s or self._last_s))
        return {
            "batches_per_s": self._num_batches / measured_s if self._num_batches else 0.0,
            "amount_per_s": self._amount / measured_s if self._num_batches else 0.0,
            "unit": self._unit,
            "seconds": measured_s if self._num_batches else 0.0,
            "longest_gap_s": self._longest_gap_s,
            "model_gpu_busy": [round(share, 4) for share in self._busy],
        }
