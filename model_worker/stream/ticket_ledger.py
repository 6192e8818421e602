"""The ticket ledger: which batch is asked of whom. Pure: events in, actions out, no I/O.

The life of a batch number n, in stream order:

    unissued --MakeBatch--> outstanding --arrives--> received --TakeNext--> trained
        ^                       |                       |
        +-- its worker left, or an example in it was excluded

An outstanding batch may be suspended: nobody is asked for it, and its place is kept.

Rules that always hold:
  1. outstanding + received batches (those on the device included) <= limit, and their bytes
     <= byte_budget, except that one batch is always admitted;
  2. batches are taken in order, each exactly once;
  3. an arrival is accepted only if that number is outstanding, was made with the exclusions that
     count for it, and comes from a worker who holds its ticket; all else is dropped and counted;
  4. no worker holds more tickets than its capacity or its share of the limit;
  5. what is taken back after it was received (`Recall`) comes after a batch that is outstanding;
  6. a worker that keeps the head waiting is late: its tickets go to others, and until it delivers
     in time again it gets one copy at a time of a ticket that someone else holds as well.

Four cursors run along the stream, each owned by one thread:

    `Position.next_batch`   where a checkpoint goes on: behind the last whole step
    `TrainingLoop._cursor`  the batch that the loop trains on, or gets next
    `TicketLedger.next_batch`  the head: the loop has told of all before it that it took them. The
                            receiving thread hears that a little late, so the head may be behind
    `BatchQueue._next`      what the copying thread gets next: ahead of the loop by what is on the
                            device, or on its way there

They stand in this order, but that the head passes the loop's cursor by one while the loop trains on
the batch that it has just taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import assert_never

from model_worker.stream.ledger_events import (
    Accept,
    Action,
    BatchArrived,
    BatchSuspended,
    BatchTaken,
    ClockTicked,
    Drop,
    DropReason,
    Event,
    ExampleExcluded,
    FailureDropped,
    Issue,
    Recall,
    Worker,
    WorkerJoined,
    WorkerLeft,
)
from model_worker.stream.worker_rooms import WorkerRooms


def _next_number(batch: int) -> int:
    return batch + 1


class TicketLedger:
    """Owns the truth about every batch between `next_batch` and the end of the stream."""

    def __init__(
        self,
        limit: int,
        byte_budget: int,
        nbytes_of: Callable[[int], int],
        first_batch: int = 0,
        end_batch: int | None = None,
        hedge_after_s: float = 5.0,
        exclusions_version: int = 0,
        after: Callable[[int], int] = _next_number,
    ):
        """`after(n)` is the number that comes after n: others may have those between.

        `exclusions_version`: that of the session's beginning, which counts for every batch.

        A data process may still make what an earlier session asked it for, with fewer of them.
        """
        self.limit = limit
        self.after = after
        self._byte_budget = byte_budget
        self._nbytes_of = nbytes_of
        self._end = math.inf if end_batch is None else end_batch
        self._hedge_after_s = hedge_after_s
        self._first_version = exclusions_version
        self.next_batch = first_batch  # the head: the next one to be trained
        self._next_unissued = first_batch
        self._returned: set[int] = set()  # numbers below _next_unissued that need a new ticket
        self._suspended: set[int] = set()  # those among them that nobody may be asked for yet
        self._holders: dict[int, set[Worker]] = {}  # outstanding batch -> who holds its ticket
        self._received: set[int] = set()
        self._workers: set[Worker] = set()
        self._rooms = WorkerRooms(limit)
        # Of each worker that is late, the ticket it must answer, and since when; or none yet.
        self._trials: dict[Worker, tuple[int, float] | None] = {}
        self._required_version: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._num_bytes = 0  # their sum
        self._now_s = 0.0
        # Since when the head is waited for; None until the next tick of the clock.
        self._head_since_s: float | None = None
        self.dropped: Counter[DropReason] = Counter()

    @property
    def num_in_flight(self) -> int:
        """Outstanding plus received: what rule 1 bounds."""
        return len(self._holders) + len(self._suspended) + len(self._received)

    @property
    def num_received(self) -> int:
        return len(self._received)

    @property
    def is_running_low(self) -> bool:
        """Whether the workers have less than half of the tickets that they could work on."""
        return 2 * len(self._holders) < min(self.limit, self._rooms.trusted_capacity)

    @property
    def bytes_in_flight(self) -> int:
        return self._num_bytes

    @property
    def num_workers(self) -> int:
        return len(self._workers)

    def in_flight(self) -> list[int]:
        """Numbers that are outstanding, received or waiting for a new ticket."""
        return sorted({*self._holders, *self._received, *self._returned})

    def is_held_by(self, worker: Worker, batch: int) -> bool:
        return worker in self._holders.get(batch, ())

    def handle(self, event: Event) -> list[Action]:
        """Take in one event and say what must be done."""
        return self._take_in(event) + self._hedge() + self._issue() + self._try_late()

    def _take_in(self, event: Event) -> list[Action]:
        match event:
            case WorkerJoined():
                return self._joined(event)
            case WorkerLeft():
                return self._left(event)
            case BatchArrived():
                return self._arrived(event)
            case FailureDropped():
                return self._failure_dropped(event)
            case BatchSuspended():
                return self._suspend(event)
            case BatchTaken():
                return self._taken(event)
            case ExampleExcluded():
                return self._excluded(event)
            case ClockTicked():
                return self._ticked(event)
            case _:
                assert_never(event)

    def _joined(self, event: WorkerJoined) -> list[Action]:
        self._workers.add(event.worker)
        self._rooms.join(event.worker, max(1, event.capacity))
        return []

    def _left(self, event: WorkerLeft) -> list[Action]:
        self._workers.discard(event.worker)
        self._end_distrust(event.worker)
        self._take_tickets_from(event.worker)
        self._rooms.leave(event.worker)
        if self._workers == self._trials.keys():
            for worker in list(self._trials):  # those who are late are better than nobody
                self._end_distrust(worker)
        return []

    def _end_distrust(self, worker: Worker) -> None:
        self._trials.pop(worker, None)
        self._rooms.trust(worker)

    def _take_tickets_from(self, worker: Worker, besides: int | None = None) -> None:
        for batch, holders in list(self._holders.items()):
            if batch != besides and worker in holders:
                holders.discard(worker)
                self._rooms.release(worker)
            if not holders:
                self._give_back(batch)

    def _give_back(self, batch: int) -> None:
        for worker in self._holders.pop(batch, ()):
            self._rooms.release(worker)
        self._forget_bytes(batch)
        self._returned.add(batch)

    def _note_bytes(self, batch: int, num_bytes: int) -> None:
        self._bytes[batch] = num_bytes
        self._num_bytes += num_bytes

    def _forget_bytes(self, batch: int) -> None:
        self._num_bytes -= self._bytes.pop(batch, 0)

    def _arrived(self, event: BatchArrived) -> list[Action]:
        batch = event.batch
        self._judge(event.worker, batch)
        holders = self._holders.get(batch, set())
        if event.worker not in holders:
            known = batch < self.next_batch or batch in self._received
            reason = DropReason.DUPLICATE if known else DropReason.NOT_ASKED_FOR
        elif event.exclusions_version < self._required_version.get(batch, self._first_version):
            reason = DropReason.EXCLUDED
            holders.discard(event.worker)
            self._rooms.release(event.worker)
            if not holders:
                self._give_back(batch)
        else:
            for worker in self._holders.pop(batch):
                self._rooms.release(worker)
            self._received.add(batch)
            return [Accept(batch)]
        self.dropped[reason] += 1
        return [Drop(batch, reason)]

    def _judge(self, worker: Worker, batch: int) -> None:
        """A worker that was late has answered: it is trusted again if it did so in time."""
        trial = self._trials.get(worker)
        if trial is None or trial[0] != batch:
            return
        if self._now_s - trial[1] < self._hedge_after_s:
            self._end_distrust(worker)
        else:
            self._trials[worker] = None

    def _failure_dropped(self, event: FailureDropped) -> list[Action]:
        self._end_trial(event.worker, event.batch)
        return []

    def _suspend(self, event: BatchSuspended) -> list[Action]:
        if event.batch in self._holders:
            for worker in self._trials:
                self._end_trial(worker, event.batch)
            self._give_back(event.batch)
            self._suspended.add(event.batch)
            self._note_bytes(event.batch, self._nbytes_of(event.batch))  # nobody else gets its room
        return []

    def _end_trial(self, worker: Worker, batch: int) -> None:
        """The trial with this batch shows nothing, and no answer to it comes: try another."""
        trial = self._trials.get(worker)
        if trial is not None and trial[0] == batch:
            self._trials[worker] = None

    def _taken(self, event: BatchTaken) -> list[Action]:
        if self.next_batch not in self._received:
            raise ValueError(f"batch {self.next_batch} was taken before it arrived")
        self._received.discard(self.next_batch)
        self._forget_bytes(self.next_batch)
        self._required_version.pop(self.next_batch, None)
        self.next_batch = self.after(self.next_batch)
        self._head_since_s = None
        return []

    def _excluded(self, event: ExampleExcluded) -> list[Action]:
        actions: list[Action] = []
        for batch in sorted(event.affected):
            if batch < self.next_batch:
                continue
            self._suspended.discard(batch)
            self._required_version[batch] = event.version
            for worker in self._trials:
                self._end_trial(worker, batch)
            if batch in self._received:
                self._received.discard(batch)
                actions.append(Recall(batch))
            if batch < self._next_unissued:
                self._give_back(batch)
        return actions

    def _ticked(self, event: ClockTicked) -> list[Action]:
        self._now_s = event.now_s
        if self._head_since_s is None:
            self._head_since_s = event.now_s
        return []

    def _hedge(self) -> list[Action]:
        """Ask a second worker for a head that is overdue, before anything new is asked for."""
        holders = self._holders.get(self.next_batch)
        if not holders or self._head_since_s is None:
            return []
        if self._now_s - self._head_since_s < self._hedge_after_s:
            return []
        helper = self._rooms.freest(besides=holders)
        if helper is None:
            return []
        for worker in holders - self._trials.keys():
            self._trials[worker] = (self.next_batch, self._head_since_s)
            self._rooms.distrust(worker)
            self._take_tickets_from(worker, besides=self.next_batch)
        self._head_since_s = self._now_s
        holders.add(helper)
        self._rooms.hold(helper)
        return [Issue(helper, self.next_batch)]

    def _try_late(self) -> list[Action]:
        """Copies of the tickets that will be needed last, for those who must show their pace."""
        actions: list[Action] = []
        for worker, trial in self._trials.items():
            others = (n for n, holders in self._holders.items() if worker not in holders)
            batch = max(others, default=None) if trial is None else None
            if batch is not None:
                self._trials[worker] = (batch, self._now_s)
                self._holders[batch].add(worker)
                self._rooms.hold(worker)
                actions.append(Issue(worker, batch))
        return actions

    def _issue(self) -> list[Action]:
        """Hand out tickets, lowest number first, for as long as every rule allows it."""
        actions: list[Action] = []
        while True:
            batch = min(self._returned - self._suspended, default=self._next_unissued)
            if batch >= self._end or self.num_in_flight >= self.limit:
                return actions
            nbytes = self._nbytes_of(batch)
            # The head is admitted whatever its size: without it nothing could ever move.
            full = self.bytes_in_flight + nbytes > self._byte_budget
            if full and self.num_in_flight and batch != self.next_batch:
                return actions
            worker = self._rooms.freest()
            if worker is None:
                return actions
            self._returned.discard(batch)
            if batch == self._next_unissued:
                self._next_unissued = self.after(batch)
            self._holders[batch] = {worker}
            self._rooms.hold(worker)
            if batch == self.next_batch:
                self._head_since_s = None
            self._note_bytes(batch, nbytes)
            actions.append(Issue(worker, batch))
