"""Batches that the training loop has begun with, on their way to the thread that owns the ledger."""

from __future__ import annotations

import os
import threading


class TakenBatches:
    """Batches taken are counted in the training loop; the receiving thread is woken when it is worth it.

    Several tickets at once cost both sides little more than one. So while the workers have enough to
    do, the next batch that comes is soon enough, and while there are batches enough, a few tickets at
    once are.
    """

    def __init__(self, limit: int):
        """`limit`: most batches in flight."""
        self.count = 0
        self.workers_run_low = True
        self.wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._limit = limit
        self._at_once = max(1, limit // 4)
        self._lock = threading.Lock()

    def add(self, num_received: int) -> None:
        """One more; `num_received`: batches here, those that are counted here among them."""
        with self._lock:
            self.count += 1
        is_urgent = (
            self.count >= self._at_once or 2 * max(0, num_received - self.count) <= self._limit
        )
        if self.workers_run_low and is_urgent:
            self.wake()

    def due(self) -> int:
        """How many the ledger is to hear of now; they are not counted here any more."""
        if self.count < (1 if self.workers_run_low else self._at_once):
            return 0
        with self._lock:
            count, self.count = self.count, 0
        return count

    def wake(self) -> None:
        """Have whoever polls `wake_fd` look."""
        os.eventfd_write(self.wake_fd, 1)

    def close(self) -> None:
        os.close(self.wake_fd)
