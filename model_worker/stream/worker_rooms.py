"""Who has room for one more ticket, and most of it: kept up to date, not looked for each time. Pure.

With a thousand workers, to look through them all for each ticket would be most of what a ledger does.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Set as AbstractSet

from model_worker.stream.ledger_events import Worker


class WorkerRooms:
    """How many tickets each worker holds, and how many more it may."""

    def __init__(self, limit: int):
        """`limit`: of all tickets; each trusted worker has an equal share of it at most."""
        self._limit = limit
        self._capacity: dict[Worker, int] = {}
        self._places: dict[Worker, int] = {}  # in the order in which they joined
        self._next_place = itertools.count()
        self._num_held: dict[Worker, int] = {}  # also of workers that have left
        self._distrusted: set[Worker] = set()
        self.trusted_capacity = 0
        self._share = 1
        # (-room, place, worker); those whose room has changed since are passed over.
        self._heap: list[tuple[int, int, Worker]] = []

    def join(self, worker: Worker, capacity: int) -> None:
        """From now on it may hold so many; also of one that is known."""
        known = self._capacity.get(worker)
        if known == capacity:
            return
        self._capacity[worker] = capacity
        self._places.setdefault(worker, next(self._next_place))
        if worker not in self._distrusted:
            self.trusted_capacity += capacity - (known or 0)
        if known is None:
            self._share_anew()
        else:
            self._note(worker)

    def leave(self, worker: Worker) -> None:
        self.trust(worker)
        if worker in self._capacity:
            self.trusted_capacity -= self._capacity.pop(worker)
            del self._places[worker]
            self._share_anew()

    def distrust(self, worker: Worker) -> None:
        """It gets no tickets, and no share."""
        if worker not in self._distrusted:
            self._distrusted.add(worker)
            self.trusted_capacity -= self._capacity.get(worker, 0)
            self._share_anew()

    def trust(self, worker: Worker) -> None:
        """The same as any other again."""
        if worker in self._distrusted:
            self._distrusted.discard(worker)
            self.trusted_capacity += self._capacity.get(worker, 0)
            self._share_anew()

    def hold(self, worker: Worker) -> None:
        """It has one more ticket."""
        self._num_held[worker] = self._num_held.get(worker, 0) + 1
        self._note(worker)

    def release(self, worker: Worker) -> None:
        """It has one less."""
        left = self._num_held[worker] - 1
        if left:
            self._num_held[worker] = left
        else:
            del self._num_held[worker]
        self._note(worker)

    def freest(self, besides: AbstractSet[Worker] = frozenset()) -> Worker | None:
        """The worker with the most room, the first to join of several; None if nobody has any."""
        set_aside = []
        found = None
        while self._heap:
            entry = self._heap[0]
            negative, place, worker = entry
            if self._places.get(worker) != place or self._room(worker) != -negative:
                heapq.heappop(self._heap)
            elif worker in besides:
                set_aside.append(heapq.heappop(self._heap))
            else:
                found = worker
                break
        for entry in set_aside:
            heapq.heappush(self._heap, entry)
        return found

    def _room(self, worker: Worker) -> int:
        """0 of one that is not trusted."""
        if worker in self._distrusted:
            return 0
        return min(self._capacity[worker], self._share) - self._num_held.get(worker, 0)

    def _note(self, worker: Worker) -> None:
        """Its room has changed."""
        place = self._places.get(worker)
        if place is None:
            return
        room = self._room(worker)
        if room > 0:
            heapq.heappush(self._heap, (-room, place, worker))
        if len(self._heap) > 64 + 8 * len(self._capacity):  # most of it is out of date
            self._rebuild()

    def _share_anew(self) -> None:
        num_trusted = len(self._capacity.keys() - self._distrusted)
        self._share = max(1, math.ceil(self._limit / max(1, num_trusted)))
        self._rebuild()

    def _rebuild(self) -> None:
        rooms = ((self._room(worker), place, worker) for worker, place in self._places.items())
        self._heap = [(-room, place, worker) for room, place, worker in rooms if room > 0]
        heapq.heapify(self._heap)
