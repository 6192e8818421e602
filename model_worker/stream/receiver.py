"""The receiving thread: owns the socket and the ledger, fills the ordered queue.

The training loop touches this only through `queue.get()`, `taken()` and a few counters.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import zmq

from model_worker.stream.admission import Expected
from model_worker.stream.arrival_check import wrong_arrays
from model_worker.stream.batch_queue import BatchQueue, ReceivedBatch
from model_worker.stream.ledger_events import (
    Accept,
    Action,
    BatchArrived,
    BatchSuspended,
    BatchTaken,
    ClockTicked,
    Drop,
    ExampleExcluded,
    FailureDropped,
    Issue,
    Recall,
    WorkerJoined,
    WorkerLeft,
)
from model_worker.stream.members import Members
from model_worker.stream.peers import plain
from model_worker.stream.taken_batches import TakenBatches
from model_worker.stream.ticket_ledger import TicketLedger
from shared.devices.cores import free_this_thread
from shared.errors import ProtocolError
from shared.plan.exclusions import Exclusions
from shared.plan.plan import Plan
from shared.stream import messages
from shared.stream.sockets import ServerSocket

log = logging.getLogger(__name__)

_POLL_MS = 100  # so often it is looked at who has connected
_PING_EVERY_S = 0.5
_STOP_DEADLINE_S = 600.0  # the thread may be waiting for a disk in trouble, and holds the endpoint
_EXCLUSIONS_PER_MESSAGE = 4000


class News(NamedTuple):
    """What replicas have agreed on: all that is left out, and which batches can be made now."""

    exclusions: Exclusions
    make_again: list[int]


class Agreement(Protocol):
    """How the replicas of a run agree on examples that are left out. Used by the receiving thread."""

    @property
    def socket(self) -> zmq.Socket:
        """On which news comes."""

    def cannot_make(self, row: int, batch: int, reason: str) -> None:
        """A batch of this replica's can't be made because of one example."""

    def news(self) -> Iterator[News]:
        """What has been agreed on since this was last asked."""


class Receiver:
    """Hands out tickets and takes in batches, in a thread of its own."""

    def __init__(
        self,
        socket: ServerSocket,
        plan: Plan,
        ledger: TicketLedger,
        expected: Expected,
        exclusions: Exclusions,
        on_exclusion: Callable[[int, int, str], None],
        agreement: Agreement | None = None,
    ):
        """`on_exclusion(row, from_batch, reason)` writes it down durably; it may raise to stop.

        With an `agreement`, what is left out is decided there, by all replicas, and not here.
        """
        self.queue = BatchQueue(ledger.next_batch, ledger.after)
        self.exclusions = exclusions
        self.num_turns = 0  # of the thread's loop: one that stands still is stuck
        self._socket = socket
        self._plan = plan
        self._ledger = ledger
        self._num_rows = expected.num_rows
        self._on_exclusion = on_exclusion
        self._agreement = agreement
        self._cannot_make: set[int] = set()  # batches that wait for all replicas to agree
        self._members = Members(socket, expected, self._take_tickets_back)
        self._taken = TakenBatches(ledger.limit)
        self._stop_reason: str | None = None
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def taken(self) -> None:
        """The training loop begins with the head of the queue: its place is free."""
        self._taken.add(self._ledger.num_received)

    def stop(self, reason: str) -> None:
        """Tell every data process that the run is over, and end the thread. Once is enough.

        Returns when the endpoint is free for the next receiver.
        """
        if self._stop_reason is not None:
            return
        self._stop_reason = reason
        self._taken.wake()
        self._thread.join(_STOP_DEADLINE_S)
        if not self._thread.is_alive():
            self._taken.close()

    @property
    def queue_depth(self) -> int:
        """Batches here, on the host or on the device, that are not trained yet."""
        return max(0, self._ledger.num_received - self._taken.count)

    @property
    def refused(self) -> Counter[str]:
        """How much was refused or dropped, by what it was."""
        return self._members.refused

    @property
    def has_ended(self) -> bool:
        """Whether no further batch will come, be it that it was stopped or that it failed."""
        return self.queue.is_closed

    @property
    def num_in_flight(self) -> int:
        """Tickets outstanding plus batches held."""
        return self._ledger.num_in_flight

    @property
    def num_workers(self) -> int:
        return len(self._members.peers)

    @property
    def first_worker_s(self) -> float | None:
        """When the first data process was let in."""
        return self._members.first_s

    def _run(self) -> None:
        free_this_thread()
        try:
            self._loop()
        except BaseException as failure:
            log.exception("the receiving thread failed")
            self.queue.close(failure)
        finally:
            # Without a reason the run goes on: the data processes stay, warm, for the next session.
            if self._stop_reason:
                self._members.tell_all(messages.StopProducing(self._stop_reason))
            self._socket.close()
            self.queue.close()

    def _loop(self) -> None:
        poller = zmq.Poller()
        for socket in self._socket.sockets:
            poller.register(socket, zmq.POLLIN)
        poller.register(self._taken.wake_fd, zmq.POLLIN)
        if self._agreement is not None:
            poller.register(self._agreement.socket, zmq.POLLIN)
        next_ping_s = 0.0
        while self._stop_reason is None:
            self.num_turns += 1
            ready = dict(poller.poll(_POLL_MS))
            if self._taken.wake_fd in ready:
                os.eventfd_read(self._taken.wake_fd)
            self._note_taken()
            self._members.note_refused_at_the_door()
            if self._socket.socket in ready:
                for peer, received in self._socket.receive_waiting():
                    self._handle(peer, received)
                    self._note_taken()
            if self._agreement is not None:
                for news in self._agreement.news():
                    self._take_news(news)
            now_s = time.monotonic()
            if now_s >= next_ping_s:
                next_ping_s = now_s + _PING_EVERY_S
                self._members.keep_in_touch(now_s, self._ledger.next_batch)
                self._act(self._ledger.handle(ClockTicked(now_s)))

    def _note_taken(self) -> None:
        for _ in range(self._taken.due()):
            self._act(self._ledger.handle(BatchTaken()))

    def _take_tickets_back(self, peer: bytes) -> None:
        self._act(self._ledger.handle(WorkerLeft(peer)))

    def _handle(self, peer: bytes, received: messages.Envelope | ProtocolError) -> None:
        members = self._members
        if isinstance(received, ProtocolError):
            members.refuse(peer, str(received))
            return
        message = received.message
        if isinstance(message, messages.Hello):
            if members.welcome(peer, received, message):
                # Also one that is known: it may have found that it can work on more at once.
                joined = WorkerJoined(peer, min(message.capacity, 1024))
                self._act(self._ledger.handle(joined))
            return
        if peer not in members.peers or received.session != self._socket.session:
            members.introduce_again(peer, "unknown session")
            return
        members.note_heard(peer, received)
        if isinstance(message, messages.BatchReady):
            self._take_in(peer, message)
        elif isinstance(message, messages.CannotRead):
            self._exclude(peer, message)
        elif isinstance(message, messages.Goodbye):
            members.forget(peer, message.reason)
        else:
            members.refuse(peer, f"{type(message).__name__} is not for the model process.")

    def _take_in(self, peer: bytes, message: messages.BatchReady) -> None:
        if self._is_unmapped(peer, message):
            self._members.ask_for_memory(peer)
            return
        # What was not asked for is the ledger's to drop, whatever it holds.
        is_asked_for = self._ledger.is_held_by(peer, message.batch)
        problem = wrong_arrays(message, self._plan) if is_asked_for else None
        if problem:
            self._members.refuse(peer, problem)
            self._members.forget(peer, problem)
            return
        now_s = time.monotonic()
        batch = ReceivedBatch(
            index=message.batch,
            arrays=message.arrays,
            timings_ms=message.timings_ms,
            data_busy=message.busy,
            asked_s=self._members.peers[peer].asked_s.pop(message.batch, now_s),
            received_s=now_s,
        )
        event = BatchArrived(peer, message.batch, message.exclusions_version)
        actions = self._ledger.handle(event)
        # Before anyone can take the batch.
        self._taken.workers_run_low = self._ledger.is_running_low
        for action in actions:
            if isinstance(action, Accept):
                self.queue.put(batch)
                self._note_first(peer)
            else:
                self._act([action])
                if isinstance(action, Drop):
                    self._members.bears(peer, "batches dropped")

    def _is_unmapped(self, peer: bytes, message: messages.BatchReady) -> bool:
        """Whether a batch that was asked for lies in memory that is not mapped here.

        It comes without arrays then. One that never had any would do so for ever, and is refused.
        """
        if message.arrays or not self._ledger.is_held_by(peer, message.batch):
            return False
        return self._members.peers[peer].bears_unmapped()

    def _note_first(self, peer: bytes) -> None:
        known = self._members.peers[peer]
        if known.is_first_delivery():
            log.info("first batch of data process %s (pid %d)", known.name, known.pid)

    def _exclude(self, peer: bytes, message: messages.CannotRead) -> None:
        # Another worker may have made the batch meanwhile, and it may be on the device already.
        held = self._ledger.is_held_by(peer, message.batch)
        if not held or message.row >= self._num_rows:
            self._act(self._ledger.handle(FailureDropped(peer, message.batch)))
            self._members.bears(peer, "failures dropped")
            return
        if self._agreement is not None:
            self._cannot_make.add(message.batch)
            self._act(self._ledger.handle(BatchSuspended(message.batch)))
            self._agreement.cannot_make(message.row, message.batch, plain(message.reason))
            return
        exclusions = self.exclusions
        if self._plan.contains(message.batch, message.row, exclusions):
            exclusions = exclusions.with_added(message.row, message.batch)
        if exclusions is not self.exclusions:
            self._on_exclusion(message.row, message.batch, plain(message.reason))
        affected = frozenset(
            n
            for n in self._ledger.in_flight()
            if n >= message.batch and self._plan.contains(n, message.row, self.exclusions)
        )
        self.exclusions = exclusions
        event = ExampleExcluded(exclusions.version, affected | {message.batch})
        self._act(self._ledger.handle(event))

    def _take_news(self, news: News) -> None:
        """Do without what all replicas have agreed to leave out.

        Batches that are affected from a later step on can't have left the queue: the step of the
        batch that could not be made is not whole.
        """
        before, self.exclusions = self.exclusions, news.exclusions
        rows = {entry[0] for entry in news.exclusions.entries[before.version :]}
        affected = {
            n
            for n in self._ledger.in_flight()
            if any(
                self.exclusions.excludes(row, n)
                and not before.excludes(row, n)
                and self._plan.contains(n, row, before)
                for row in rows
            )
        }
        # What could not be made waits until all know; then it is made, found affected or not.
        self._cannot_make -= {*news.make_again}
        affected = affected - self._cannot_make | {*news.make_again}
        version = self.exclusions.version
        self._act(self._ledger.handle(ExampleExcluded(version, frozenset(affected))))

    def _act(self, actions: list[Action]) -> None:
        lost: list[bytes] = []
        for action in actions:
            if isinstance(action, Issue):
                if not self._send_ticket(action.worker, action.batch):
                    lost.append(action.worker)
            elif isinstance(action, Drop):
                log.debug("batch %d dropped: %s", action.batch, action.reason)
            elif isinstance(action, Recall):
                log.debug("batch %d taken back", action.batch)
                self.queue.discard(action.batch)
        for peer in dict.fromkeys(lost):
            self._members.forget(peer, "connection lost")

    def _send_ticket(self, peer: bytes, batch: int) -> bool:
        known = self._members.peers.get(peer)
        if known is None:
            return False
        version = self.exclusions.version
        while known.known_exclusions < version:
            start = known.known_exclusions
            entries = self.exclusions.to_json()[start : start + _EXCLUSIONS_PER_MESSAGE]
            if not self._socket.send(peer, messages.Exclude(start, entries)):
                return False
            known.known_exclusions += len(entries)
        known.asked_s[batch] = time.monotonic()
        return self._socket.send(peer, messages.MakeBatch(batch, version))
