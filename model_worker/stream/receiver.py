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

from model_worker.stream import ticket_ledger as ledger_module
from model_worker.stream.admission import Expected
from model_worker.stream.arrival_check import wrong_arrays
from model_worker.stream.batch_queue import BatchQueue, ReceivedBatch
from model_worker.stream.peer_limits import PeerLimits
from model_worker.stream.peers import Peer, Refusals, plain
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
_SILENT_AFTER_S = 10.0  # a peer whose own loop says nothing this long has lost its tickets
_WAITING_SAID_EVERY_S = 15.0
_EXCLUSIONS_PER_MESSAGE = 4000
_MAX_PEERS = 256


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
        self.first_worker_s: float | None = None  # when the first data process was let in
        self.num_turns = 0  # of the thread's loop: one that stands still is stuck
        self._socket = socket
        self._plan = plan
        self._ledger = ledger
        self._expected = expected
        self._on_exclusion = on_exclusion
        self._agreement = agreement
        self._cannot_make: set[int] = set()  # batches that wait for all replicas to agree
        self._peers: dict[bytes, Peer] = {}
        self._limits = PeerLimits()
        self._refusals = Refusals()
        self._alone_since_s = 0.0
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
        return self._refusals.counts

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
        return len(self._peers)

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
                for peer in list(self._peers):
                    self._socket.send(peer, messages.StopProducing(self._stop_reason))
            self._socket.close()
            self.queue.close()

    def _loop(self) -> None:
        poller = zmq.Poller()
        for socket in self._socket.sockets:
            poller.register(socket, zmq.POLLIN)
        poller.register(self._taken.wake_fd, zmq.POLLIN)
        if self._agreement is not None:
            poller.register(self._agreement.socket, zmq.POLLIN)
        next_ping_s, self._alone_since_s = 0.0, time.monotonic()
        while self._stop_reason is None:
            self.num_turns += 1
            ready = dict(poller.poll(_POLL_MS))
            if self._taken.wake_fd in ready:
                os.eventfd_read(self._taken.wake_fd)
            self._note_taken()
            for reason in self._socket.refused_at_the_door():
                self._refusals.note(reason)
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
                self._ping(now_s)
                self._refusals.tell(now_s)
                self._tell_if_alone(now_s)
                self._act(self._ledger.handle(ledger_module.ClockTicked(now_s)))

    def _note_taken(self) -> None:
        for _ in range(self._taken.due()):
            self._act(self._ledger.handle(ledger_module.BatchTaken()))

    def _ping(self, now_s: float) -> None:
        """Find peers that are gone: ZeroMQ refuses to send to them, or they have gone silent."""
        for peer, known in list(self._peers.items()):
            known.forget_before(self._ledger.next_batch)
            if now_s - known.heard_s > _SILENT_AFTER_S:
                self._forget(peer, f"silent for {_SILENT_AFTER_S:g} s")
            elif not self._socket.send(peer, messages.Welcome(known.name, known.memory)):
                self._forget(peer, "connection lost")

    def _forget(self, peer: bytes, reason: str) -> None:
        known = self._peers.pop(peer, None)
        self._limits.forget(peer)
        self._socket.forget(peer)
        if known is not None:
            log.warning("data process %s (pid %d) left: %s", known.name, known.pid, plain(reason))
            self._act(self._ledger.handle(ledger_module.WorkerLeft(peer)))

    def _handle(self, peer: bytes, received: messages.Envelope | ProtocolError) -> None:
        if isinstance(received, ProtocolError):
            self._refuse(peer, str(received))
            return
        message = received.message
        if isinstance(message, messages.Hello):
            self._welcome(peer, received, message)
            return
        if peer not in self._peers or received.session != self._socket.session:
            if self._bears(peer, "unknown session"):
                self._socket.send(peer, messages.Introduce())
            return
        self._note_heard(peer, received)
        if isinstance(message, messages.BatchReady):
            self._take_in(peer, message)
        elif isinstance(message, messages.CannotRead):
            self._exclude(peer, message)
        elif isinstance(message, messages.Goodbye):
            self._forget(peer, message.reason)
        else:
            self._refuse(peer, f"{type(message).__name__} is not for the model process.")

    def _note_heard(self, peer: bytes, received: messages.Envelope) -> None:
        known = self._peers[peer]
        known.heard_s, known.sequence = time.monotonic(), received.sequence

    def _bears(self, peer: bytes, what: str = "") -> bool:
        """Note a message that is of no use; False when its sender has been hung up on for it."""
        if what:
            self._refusals.counts[what] += 1
        num_bytes = self._socket.last_num_bytes
        if self._limits.bears(peer, peer in self._peers, time.monotonic(), num_bytes):
            return True
        self._hang_up(peer)
        return False

    def _hang_up(self, peer: bytes) -> None:
        self._refusals.counts["hung up on"] += 1
        self._socket.hang_up_on_sender()
        self._forget(peer, "it sent too many messages of no use")

    def _tell_if_alone(self, now_s: float) -> None:
        """Whoever started only this side by hand must not wonder what it does."""
        if self._peers:
            self._alone_since_s = now_s
        elif now_s - self._alone_since_s > _WAITING_SAID_EVERY_S:
            self._alone_since_s = now_s
            log.info("waiting for a data process at %s", self._socket.endpoint)

    def _refuse(self, peer: bytes, reason: str) -> None:
        self._refusals.note(reason)
        if self._bears(peer):
            self._socket.send(peer, messages.Refused(plain(reason)))

    def _welcome(self, peer: bytes, received: messages.Envelope, hello: messages.Hello) -> None:
        reason = self._expected.mismatch(received.run, hello)
        is_new = peer not in self._peers
        if not reason and is_new:
            self._make_room(received, hello)
            if len(self._peers) >= _MAX_PEERS:
                reason = f"there are {_MAX_PEERS} data processes already."
        if reason:
            self._refuse(peer, reason)
            return
        now_s = time.monotonic()
        if not self._limits.bears_introduction(peer, now_s):
            self._hang_up(peer)
            return
        self._socket.admit_sender()
        if is_new:
            log.info("data process %s (pid %d) joined", hello.worker, hello.pid)
            self._peers[peer] = Peer(hello.worker, hello.pid, heard_s=now_s)
            self._limits.forget(peer)
            self.first_worker_s = self.first_worker_s or now_s
            if received.session == self._socket.session:
                # Its connection broke. Memory that it handed over may have been lost with that.
                self._socket.send(peer, messages.Introduce())
        known = self._peers[peer]
        self._note_heard(peer, received)
        memory = self._socket.share_memory_with_sender(hello)
        if is_new or memory != known.memory:
            known.memory = memory
            self._socket.send(peer, messages.Welcome(known.name, memory))
        # Also from one that is known: it may have found that it can work on more at once.
        joined = ledger_module.WorkerJoined(peer, min(hello.capacity, 1024))
        self._act(self._ledger.handle(joined))

    def _make_room(self, received: messages.Envelope, hello: messages.Hello) -> None:
        """Forget those whose place a newcomer takes: its tickets are not to wait for them.

        A name alone shows nothing. Whoever the launcher replaces is dead, so its connection is gone
        and nothing can be sent to it. A process whose connection broke is itself: it has its pid
        and counts its messages on. Any other of that name is alive, be it that two were started
        with one --name: forgotten, it would come back within a second and throw this one out. It
        stays, and both work, for only the log tells data processes apart by their names.
        """
        for other, known in list(self._peers.items()):
            if known.name != hello.worker:
                continue
            is_itself = known.pid == hello.pid and known.sequence < received.sequence
            is_there = self._socket.send(other, messages.Welcome(known.name, known.memory))
            if is_itself or not is_there or len(self._peers) >= _MAX_PEERS:
                self._forget(other, f"replaced by pid {hello.pid}")
            else:
                log.warning(
                    "two data processes are called %s (pids %d and %d). Both are at work; give one "
                    "of them another --name to tell them apart.",
                    known.name, known.pid, hello.pid,
                )  # fmt: skip

    def _take_in(self, peer: bytes, message: messages.BatchReady) -> None:
        if self._is_unmapped(peer, message):
            self._ask_for_memory(peer)
            return
        # What was not asked for is the ledger's to drop, whatever it holds.
        is_asked_for = self._ledger.is_held_by(peer, message.batch)
        problem = wrong_arrays(message, self._plan) if is_asked_for else None
        if problem:
            self._refuse(peer, problem)
            self._forget(peer, problem)
            return
        now_s = time.monotonic()
        batch = ReceivedBatch(
            index=message.batch,
            arrays=message.arrays,
            timings_ms=message.timings_ms,
            data_busy=message.busy,
            asked_s=self._peers[peer].asked_s.pop(message.batch, now_s),
            received_s=now_s,
        )
        event = ledger_module.BatchArrived(peer, message.batch, message.exclusions_version)
        actions = self._ledger.handle(event)
        # Before anyone can take the batch.
        self._taken.workers_run_low = self._ledger.is_running_low
        for action in actions:
            if isinstance(action, ledger_module.Accept):
                self.queue.put(batch)
                self._note_first(peer)
            else:
                self._act([action])
                if isinstance(action, ledger_module.Drop):
                    self._bears(peer, "batches dropped")

    def _is_unmapped(self, peer: bytes, message: messages.BatchReady) -> bool:
        """Whether a batch that was asked for lies in memory that is not mapped here.

        It comes without arrays then. One that never had any would do so for ever, and is refused.
        """
        if message.arrays or not self._ledger.is_held_by(peer, message.batch):
            return False
        return self._peers[peer].bears_unmapped()

    def _ask_for_memory(self, peer: bytes) -> None:
        """Have a peer offer its memory anew, and make again what it handed over in the old one.

        It can't have meant harm: it was told that its memory is mapped, and knows no better until
        it hears this. Then it uses other memory, or the socket if that can't be mapped either, and
        with its next Hello it gets its tickets back.
        """
        known = self._peers[peer]
        log.info("the memory of data process %s (pid %d) is not mapped any more; asking it to "
                 "introduce itself again", known.name, known.pid)  # fmt: skip
        known.memory = ""
        self._socket.forget(peer)
        self._act(self._ledger.handle(ledger_module.WorkerLeft(peer)))
        if self._bears(peer, "memory not mapped"):
            self._socket.send(peer, messages.Introduce())

    def _note_first(self, peer: bytes) -> None:
        known = self._peers[peer]
        if known.is_first_delivery():
            log.info("first batch of data process %s (pid %d)", known.name, known.pid)

    def _exclude(self, peer: bytes, message: messages.CannotRead) -> None:
        # Another worker may have made the batch meanwhile, and it may be on the device already.
        held = self._ledger.is_held_by(peer, message.batch)
        if not held or message.row >= self._expected.num_rows:
            self._act(self._ledger.handle(ledger_module.FailureDropped(peer, message.batch)))
            self._bears(peer, "failures dropped")
            return
        if self._agreement is not None:
            self._cannot_make.add(message.batch)
            self._act(self._ledger.handle(ledger_module.BatchSuspended(message.batch)))
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
        event = ledger_module.ExampleExcluded(exclusions.version, affected | {message.batch})
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
        self._act(self._ledger.handle(ledger_module.ExampleExcluded(version, frozenset(affected))))

    def _act(self, actions: list[ledger_module.Action]) -> None:
        lost: list[bytes] = []
        for action in actions:
            if isinstance(action, ledger_module.Issue):
                if not self._send_ticket(action.worker, action.batch):
                    lost.append(action.worker)
            elif isinstance(action, ledger_module.Drop):
                log.debug("batch %d dropped: %s", action.batch, action.reason)
            elif isinstance(action, ledger_module.Recall):
                log.debug("batch %d taken back", action.batch)
                self.queue.discard(action.batch)
        for peer in dict.fromkeys(lost):
            self._forget(peer, "connection lost")

    def _send_ticket(self, peer: bytes, batch: int) -> bool:
        known = self._peers.get(peer)
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
