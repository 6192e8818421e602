"""The data process's loop: introduce itself, take tickets, send batches, leave when told."""

from __future__ import annotations

import dataclasses
import logging
import os
import queue
import time
from collections.abc import Callable

import zmq

from data_worker.batches.batch_maker import BatchMaker, FailedRow, MadeBatch
from data_worker.batches.movement import Movement
from shared.devices.cores import BusyMeter
from shared.diagnosis.wait_attribution import Made
from shared.errors import ProtocolError, TandemError, VersionError
from shared.plan.exclusions import Exclusions
from shared.stream import messages
from shared.stream.sockets import ClientSocket
from shared.worker.reports import Busy, Reporter

log = logging.getLogger(__name__)

_POLL_MS = 250
_HELLO_EVERY_S = 1.0
_WAITING_SAID_EVERY_S = 15.0


class Outbox:
    """Finished work on its way from the feature thread to the serving loop."""

    def __init__(self) -> None:
        self.wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._items: queue.SimpleQueue = queue.SimpleQueue()

    def put(self, item: MadeBatch | FailedRow | BaseException) -> None:
        self._items.put(item)
        os.eventfd_write(self.wake_fd, 1)

    def take_all(self) -> list[MadeBatch | FailedRow | BaseException]:
        try:
            os.eventfd_read(self.wake_fd)
        except BlockingIOError:
            pass
        items = []
        while not self._items.empty():
            items.append(self._items.get())
        return items


class DataServer:
    """Serves one model process at a time, through its restarts."""

    def __init__(
        self,
        socket: ClientSocket,
        hello: messages.Hello,
        maker: BatchMaker,
        outbox: Outbox,
        reporter: Reporter,
        movement: Movement,
        busy: BusyMeter,
        should_stop: Callable[[], bool],
        num_examples: int,
    ):
        """`outbox`: where the batch maker puts what it has done."""
        self._num_examples = num_examples
        self._socket = socket
        self._hello = hello
        self._maker = maker
        self._outbox = outbox
        self._reporter = reporter
        self._movement = movement
        self._busy = busy
        self._should_stop = should_stop
        self._pending: set[int] = set()
        self._sending_ms = 0.0  # the last batch: a header can't hold the time of its own making
        self._exclusions = Exclusions()
        self._next_hello_s = self._next_handshake_word_s = 0.0
        self._waiting_since_s = self._said_waiting_s = time.monotonic()

    def serve(self) -> str:
        """Run until the model process says that the run is over; returns its reason.

        Raises:
            TandemError: the model process refused this one, or a batch could not be made.
        """
        poller = zmq.Poller()
        poller.register(self._socket.socket, zmq.POLLIN)
        poller.register(self._outbox.wake_fd, zmq.POLLIN)
        self._movement.serves()
        try:
            while not self._should_stop():
                self._introduce()
                poller.poll(_POLL_MS)
                self._look_at_handshakes()
                for received in self._socket.receive_waiting():
                    reason = self._take(received)
                    if reason is not None:
                        return reason
                for item in self._outbox.take_all():
                    self._send(item)
                if self._busy.sample():
                    self._reporter.tell(
                        Busy(
                            share=self._busy.rounded_share,
                            memory_mb=self._busy.memory_mb(),
                            cached=self._maker.num_cached,
                            to_cache=self._num_examples,
                        )
                    )
                self._movement.tell(idle=not self._pending)
            self._socket.send(messages.Goodbye("stopped"))
            return "stopped"
        finally:
            self._maker.close()
            self._socket.close()

    def _introduce(self) -> None:
        now_s = time.monotonic()
        if now_s < self._next_hello_s:
            return
        self._next_hello_s = now_s + _HELLO_EVERY_S
        self._socket.send(dataclasses.replace(self._hello, capacity=self._maker.capacity))
        if not self._socket.session and now_s - self._said_waiting_s > _WAITING_SAID_EVERY_S:
            self._said_waiting_s = now_s
            log.info("waiting for the model process at %s", self._socket.endpoint)

    def _look_at_handshakes(self) -> None:
        """Raises TandemError when this process's key was refused."""
        now_s = time.monotonic()
        if self._socket.handshake_failed() and now_s >= self._next_handshake_word_s:
            self._next_handshake_word_s = now_s + _WAITING_SAID_EVERY_S
            log.warning(
                "the handshake with the model process at %s failed. The keys of the two sides must "
                "come from one 'launcher.py keys', and both sides or neither be given --keys.",
                self._socket.endpoint,
            )

    def _take(self, received: messages.Envelope | ProtocolError) -> str | None:
        """Handle one message; a reason when the run is over."""
        if isinstance(received, VersionError):
            raise TandemError(f"the model process can't be understood: {received}")
        if isinstance(received, ProtocolError):
            log.warning("a message from the model process was not understood: %s", received)
            return None
        message = received.message
        if isinstance(message, messages.Refused):
            raise TandemError(f"the model process refused this data process: {message.reason}")
        if received.session != self._socket.session:
            self._begin_session(received.session)
        if isinstance(message, messages.MakeBatch):
            self._pending.add(message.batch)
            exclusions = self._exclusions.at_version(message.exclusions_version)
            self._maker.submit(message.batch, exclusions)
        elif isinstance(message, messages.Exclude):
            known = self._exclusions.at_version(message.version)
            self._exclusions = Exclusions.from_json([*known.to_json(), *message.entries])
        elif isinstance(message, messages.StopProducing):
            return message.reason
        elif isinstance(message, messages.Introduce):
            self._next_hello_s = 0.0
        return None

    def _begin_session(self, session: str) -> None:
        """A new model process: what the old one asked for is void."""
        if self._socket.session:
            log.info("the model process was restarted; starting its session afresh")
        self._socket.session = session
        self._pending.clear()
        self._exclusions = Exclusions()

    def _send(self, item: MadeBatch | FailedRow | BaseException) -> None:
        if isinstance(item, BaseException):
            raise item
        self._movement.note()
        if item.batch not in self._pending:
            return  # asked for by a model process that is gone
        self._pending.discard(item.batch)
        message: messages.CannotRead | messages.BatchReady
        if isinstance(item, FailedRow):
            log.warning("row %d can't be read: %s", item.row, item.reason)
            message = messages.CannotRead(item.batch, item.row, item.reason[:1000])
        else:
            message = messages.BatchReady(
                item.batch,
                item.exclusions_version,
                dataclasses.asdict(self._with_ending(item)),
                messages.NOT_SAID if self._busy.share is None else self._busy.share,
                item.arrays,
            )
        started_s = time.perf_counter()
        self._socket.send(message)
        self._sending_ms = (time.perf_counter() - started_s) * 1000

    def _with_ending(self, item: MadeBatch) -> Made:
        """How a batch was made, with its last leg in this process."""
        now_s = time.perf_counter()
        return dataclasses.replace(
            item.made,
            serialising=(now_s - item.finished_s) * 1000 + self._sending_ms,
            in_process=(now_s - item.submitted_s) * 1000,
        )
