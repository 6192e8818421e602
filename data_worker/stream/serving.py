"""The data process's loop: introduce itself, take tickets, send batches, leave when told."""

from __future__ import annotations

import dataclasses
import logging
import os
import queue
import time
from collections.abc import Callable, Sequence

import zmq

from data_worker.batches.batch_maker import BatchMaker, FailedRow, MadeBatch
from data_worker.batches.movement import Movement
from data_worker.stream.line import Line
from shared.devices.cores import BusyMeter
from shared.diagnosis.wait_attribution import Made
from shared.plan.exclusions import Exclusions
from shared.stream import messages
from shared.stream.sockets import ClientSocket
from shared.worker.reports import Busy, Reporter

log = logging.getLogger(__name__)

_POLL_MS = 250


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
    """Serves the model process of a run, or each of its replicas, through their restarts."""

    def __init__(
        self,
        sockets: Sequence[ClientSocket],
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
        self._lines = [Line(socket, hello) for socket in sockets]
        self._maker = maker
        self._outbox = outbox
        self._reporter = reporter
        self._movement = movement
        self._busy = busy
        self._should_stop = should_stop
        self._sending_ms = 0.0  # the last batch: a header can't hold the time of its own making

    def serve(self) -> str:
        """Run until the model process says that the run is over; returns its reason.

        Raises:
            TandemError: the model process refused this one, or a batch could not be made.
        """
        poller = zmq.Poller()
        for line in self._lines:
            poller.register(line.socket.socket, zmq.POLLIN)
        poller.register(self._outbox.wake_fd, zmq.POLLIN)
        self._movement.serves()
        try:
            while not self._should_stop():
                for line in self._lines:
                    line.introduce(self._maker.capacity)
                poller.poll(_POLL_MS)
                for line in self._lines:
                    line.look_at_handshakes()
                    reason = line.take_waiting(self._begin)
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
                self._movement.tell(idle=not any(line.pending for line in self._lines))
            for line in self._lines:
                line.socket.send(messages.Goodbye("stopped"))
            return "stopped"
        finally:
            self._maker.close()
            for line in self._lines:
                line.socket.close()

    def _begin(self, line: Line, batch: int, exclusions: Exclusions) -> None:
        """A ticket has come."""
        self._maker.submit(batch, exclusions, line.socket.take_memory)

    def _send(self, item: MadeBatch | FailedRow | BaseException) -> None:
        if isinstance(item, BaseException):
            raise item
        self._movement.note()
        line = next((line for line in self._lines if item.batch in line.pending), None)
        if line is None:
            return  # asked for by a model process that is gone
        line.pending.discard(item.batch)
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
        line.socket.send(message)
        self._sending_ms = (time.perf_counter() - started_s) * 1000

    def _with_ending(self, item: MadeBatch) -> Made:
        """How a batch was made, with its last leg in this process."""
        now_s = time.perf_counter()
        return dataclasses.replace(
            item.made,
            serialising=(now_s - item.finished_s) * 1000 + self._sending_ms,
            in_process=(now_s - item.submitted_s) * 1000,
        )
