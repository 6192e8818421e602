"""The ordered queue between the receiving thread and the training loop."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class ReceivedBatch:
    """One batch as it came off the wire, with where its time went."""

    index: int
    arrays: dict[str, np.ndarray]
    timings_ms: dict[str, float]
    data_busy: float
    asked_s: float  # when its ticket went out, by time.monotonic()
    received_s: float


class StreamEnded(Exception):
    """There will be no further batch."""


class BatchQueue:
    """Holds batches by number and gives them out in order. Bounded by whoever issues tickets.

    Its cursor `_next` only ever goes forward, and stops at the first number that is not here. That
    makes `discard` safe: an example is excluded for a batch that could not be made, which is not
    here, and only batches after it are discarded. So none of those has left the queue, and none can
    be on the device already.
    """

    def __init__(self, first_batch: int, after: Callable[[int], int]):
        """`after(n)` is the number that comes after n."""
        self._next, self._after = first_batch, after
        self._held: dict[int, ReceivedBatch] = {}
        self._changed = threading.Condition()
        self._failure: BaseException | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing more comes in."""
        return self._failure is not None

    def put(self, batch: ReceivedBatch) -> None:
        with self._changed:
            self._held[batch.index] = batch
            self._changed.notify_all()

    def discard(self, index: int) -> None:
        """Forget a batch that must be made again, if it is here; one before it must be missing."""
        with self._changed:
            self._held.pop(index, None)

    def get(self) -> ReceivedBatch:
        """The next batch in order; waits for it.

        Raises:
            StreamEnded: the queue was closed.
            BaseException: what the receiving thread failed with.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._next in self._held or self._failure)
            if self._failure is not None and self._next not in self._held:
                raise self._failure
            batch = self._held.pop(self._next)
            self._next = self._after(self._next)
            return batch

    def close(self, failure: BaseException | None = None) -> None:
        """Wake whoever waits; batches that are already here in order can still be had."""
        with self._changed:
            if self._failure is None:
                self._failure = failure or StreamEnded()
            self._changed.notify_all()
