"""Lives in a Ray actor: starts one worker as its child, and tells whoever asks how that fares.

It is asked again and again. Where nobody asks for longer than the lease, the launcher has died or can
not be reached, and may have replaced the worker: so the agent ends it, and itself.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import selectors
import signal
import threading
import time
from collections import deque

from shared.clock import machine_s
from shared.places.local_place import WorkerProcess
from shared.places.place import WorkerOrder
from shared.run.typed_lines import encode
from shared.worker.contract import START_VARIABLE
from shared.worker.reports import Report

LEASE_S = 20.0
_TURN_S = 0.25
_GATHER_S = 0.2  # reports that come soon after another go with it
_MOST_WAITING = 5000  # lines
# Of the actor's own environment, what Ray has put there for itself.
_RAYS_OWN = ("RAY_", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


@dataclasses.dataclass(frozen=True)
class WorkerNews:
    """What has happened since it was last asked."""

    first: int  # the number of the first line
    lines: list[bytes]  # reports
    is_stopped: bool = False
    status: int | None = None  # once it has ended and all its reports are told
    reading: tuple[int, ...] = ()


class Agent:
    """Asked from several threads; the child belongs to one that lives as long as this process."""

    def __init__(self, lease_s: float = LEASE_S):
        self._lease_s = lease_s
        self._heard_s = time.monotonic()
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._first = 0
        self._order: WorkerOrder | None = None
        self._child: WorkerProcess | None = None
        self._failure: OSError | None = None
        self._status: int | None = None
        self._reading: tuple[int, ...] = ()
        self._is_stopped = False
        # The kernel tells a child of the death of the thread that started it.
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._keeper.start()

    def start(self, order: WorkerOrder, age_s: float) -> tuple[str, int]:
        """Start the worker, of a run that began so long ago; this host's name and its process id.

        Raises:
            OSError: the system has no room for it.
        """
        # The clocks of two hosts have nothing in common.
        started = {START_VARIABLE: repr(machine_s() - age_s)}
        environment = {**order.environment, **started}
        with self._changed:
            self._heard_s = time.monotonic()
            self._order = dataclasses.replace(order, environment=environment)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._child or self._failure)
            if self._failure is not None:
                raise self._failure
            assert self._child is not None
            return platform.node(), self._child.pid

    def news(self, seen: int, wait_s: float) -> WorkerNews:
        """What has happened since line `seen`, as soon as there is any of it."""
        with self._changed:
            self._heard_s = time.monotonic()
            while self._lines and self._first < seen:
                self._lines.popleft()
                self._first += 1
            self._changed.wait_for(lambda: self._lines or self._status is not None, wait_s)
            if self._status is None:
                self._changed.wait_for(lambda: self._status is not None, _GATHER_S)
            self._heard_s = time.monotonic()
            return WorkerNews(
                self._first, list(self._lines), self._is_stopped, self._status, self._reading
            )

    def send_signal(self, number: int) -> None:
        """Once the child has ended this does nothing."""
        if self._child is not None:
            self._child.send_signal(signal.Signals(number))

    def take_over(self, name: str, suspects: tuple[int, ...]) -> None:
        """The child, a spare, goes on under this name."""
        if self._child is not None:
            self._child.take_over(name, suspects)

    def _keep(self) -> None:
        with self._changed:
            while self._order is None:
                self._changed.wait(_TURN_S)
                self._end_if_unheard()
            base = {k: v for k, v in os.environ.items() if not k.startswith(_RAYS_OWN)}
            try:
                self._child = WorkerProcess(self._order, self._take, base)
            except OSError as error:
                self._failure = error
            self._changed.notify_all()
        if self._child is not None:
            self._watch(self._child)

    def _watch(self, child: WorkerProcess) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(child.reader.descriptor, selectors.EVENT_READ)
            while (status := child.poll()) is None:
                if selector.select(_TURN_S) and not child.reader.read():
                    selector.unregister(child.reader.descriptor)
                with self._changed:
                    self._is_stopped = child.is_stopped()
                self._end_if_unheard()
        child.reader.drain()
        with self._changed:
            self._reading = child.was_reading()
            self._status = status
            self._changed.notify_all()
        while True:  # the child is a matter of this thread to its end, and so is the lease
            time.sleep(_TURN_S)
            self._end_if_unheard()

    def _take(self, name: str, report: Report) -> None:
        with self._changed:
            self._lines.append(encode(report))
            if len(self._lines) > _MOST_WAITING:
                self._lines.popleft()
                self._first += 1
            self._changed.notify_all()

    def _end_if_unheard(self) -> None:
        if time.monotonic() - self._heard_s > self._lease_s:
            if self._child is not None:
                self._child.send_signal(signal.SIGKILL)
                self._child.wait(5.0)
            os._exit(0)
