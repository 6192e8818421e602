"""Data processes on the hosts of a Ray cluster, each the child of an agent in an actor of its own.

A thread for each asks its agent what has happened, and writes what it hears into a pipe, so that the
launcher reads it like any other child. A model process is a child of the launcher itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from shared.clock import machine_s
from shared.places.line_reader import LineReader
from shared.places.local_place import LocalPlace
from shared.places.place import Child, TakeReport, WorkerOrder, reader_of
from shared.places.ray_agent import Agent, WorkerNews
from shared.places.ray_cluster import ActorLost, ActorSilent, ActorUnreachable, RayCluster
from shared.run.typed_lines import encode
from shared.worker.contract import START_VARIABLE, STARTING
from shared.worker.reports import Cause, Phase, Placed, Report, Said

log = logging.getLogger(__name__)

_ASK_S = 1.0  # an agent answers so late if there is nothing to tell
_ANSWER_S = 3.0  # beyond that
_TRY_AGAIN_S = 0.25
# A data process that is replaced too early can do no harm.
_SILENT_S = 8.0
_UNREACHABLE_S = 3.0
_PLACING_DEADLINE_S = 24 * 3600.0  # the cluster may have to grow, or another run to end
_STARTING_DEADLINE_S = 180.0
_DATA_CPUS = 1.0
_LOOK_AT_HEAD_EVERY_S = 2.0
_HEAD_GONE_S = 20.0
_CLOSES_WITHIN_S = 3.0
_WAITING_SAID_AFTER_S = 15.0
_MOST_UNREAD_BYTES = 4 << 20  # of reports, while a held terminal holds up the launcher
# The nodes that can be used now; what is to be said of others is told to the function given.
UsableNodes = Callable[[Callable[[str], None]], Sequence[str]]
# What of this environment means the same on every host.
_PASSED_ON = ("TANDEM_", "TF_", "XLA_", "OMP_NUM_THREADS")


class RayPlace:
    """Where the data processes of a run live. One that is lost is started wherever there is room."""

    def __init__(self, cluster: RayCluster, usable_nodes: UsableNodes):
        self._cluster = cluster
        self._usable_nodes = usable_nodes
        self._local = LocalPlace()
        self._children: list[RayChild] = []
        self._is_closed = threading.Event()

    def start(self, order: WorkerOrder, on_report: TakeReport) -> Child:
        if order.role == "model":
            return self._local.start(order, on_report)
        passed = {n: v for n, v in os.environ.items() if n.startswith(_PASSED_ON)}
        order = dataclasses.replace(order, environment={**passed, **order.environment})
        child = RayChild(self._cluster, self._usable_nodes, order, on_report)
        self._children = [each for each in self._children if each.poll() is None] + [child]
        return child

    def stop_without_head(self, stop: Callable[[str], None]) -> None:
        """Tell `stop` when the cluster's head is gone: a minute after that, Ray ends this process."""
        threading.Thread(target=self._watch_head, args=(stop,), name="head", daemon=True).start()

    def _watch_head(self, stop: Callable[[str], None]) -> None:
        answered_s = time.monotonic()
        while not self._is_closed.wait(_LOOK_AT_HEAD_EVERY_S):
            if self._cluster.head_answers():
                answered_s = time.monotonic()
            elif time.monotonic() - answered_s > _HEAD_GONE_S:
                self._cluster.do_without()
                stop(
                    f"⚠️  Ray's head has not answered for {_HEAD_GONE_S:.0f} s: saving and ending, since "
                    "Ray ends what it has started without one. The same command goes on once it is back"
                )
                return

    def close(self) -> None:
        self._is_closed.set()
        for child in self._children:
            child.end()
        until_s = time.monotonic() + _CLOSES_WITHIN_S
        for child in self._children:
            child.wait(max(0.0, until_s - time.monotonic()))
        self._cluster.close()


class RayChild:
    """A worker on some host of the cluster."""

    def __init__(
        self,
        cluster: RayCluster,
        usable_nodes: UsableNodes,
        order: WorkerOrder,
        on_report: TakeReport,
    ):
        """Raises OSError where this process has no descriptor for it."""
        self.name = order.name
        self._cluster, self._usable_nodes, self._order = cluster, usable_nodes, order
        self._actor: Any = None
        self._status: int | None = None
        self._is_stopped = self._is_unwanted = False
        self._reading: tuple[int, ...] = ()
        self._unread: deque[bytes] = deque()
        self._num_unread_bytes = 0
        self._ended = threading.Event()
        read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._reader = reader_of(read, self, on_report)
        self._thread = threading.Thread(target=self._run, name=order.name, daemon=True)
        self._thread.start()

    @property
    def reader(self) -> LineReader:
        return self._reader

    def poll(self) -> int | None:
        return self._status

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._ended.wait(timeout_s)

    def is_stopped(self) -> bool:
        return self._is_stopped

    def was_reading(self) -> tuple[int, ...]:
        return self._reading

    def send_signal(self, number: signal.Signals) -> None:
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._is_unwanted = True  # so that one which is not placed yet never is
        self._ask(lambda actor: actor.send_signal.remote(int(number)))

    def dump_stack(self) -> None:
        self.send_signal(signal.SIGCONT)
        self.send_signal(signal.SIGUSR2)

    def take_over(self, name: str, suspects: tuple[int, ...]) -> None:
        self.name = name
        self._ask(lambda actor: actor.take_over.remote(name, suspects))

    def end(self) -> None:
        """End its actor, whatever it does."""
        self._is_unwanted = True
        if self._actor is not None:
            self._cluster.end(self._actor)

    def _ask(self, call: Callable[[Any], Any]) -> None:
        """Nobody waits for it; what came of it is heard from the agent, or from its silence."""
        if self._actor is not None and self._status is None:
            with contextlib.suppress(Exception):  # Ray's, of an actor that is gone
                call(self._actor)

    def _run(self) -> None:
        status = -int(signal.SIGKILL)
        try:
            self._tell(Phase("waiting for a host", _PLACING_DEADLINE_S))
            if self._place():
                status = self._follow()
        except ActorLost as lost:
            self._tell(Cause(str(lost), will_pass=True))
        except OSError as error:
            self._tell(Cause(f"it could not be started ({error.strerror})", will_pass=True))
            status = 1
        except Exception as error:
            log.exception("%s", self.name)
            self._tell(Cause(f"Ray failed: {type(error).__name__}", will_pass=True))
        finally:
            if self._actor is not None:
                self._cluster.end(self._actor)
            self._flush()
            os.close(self._write)
            self._status = status
            self._ended.set()

    def _place(self) -> bool:
        """Wait for an actor, and have it start the worker; False where it is not wanted any more."""
        while not (nodes := self._usable_nodes(lambda text: self._tell(Said(text)))):
            if self._is_unwanted:
                return False
            time.sleep(_TRY_AGAIN_S)
        age_s = machine_s() - float(self._order.environment.get(START_VARIABLE, machine_s()))
        self._actor = self._cluster.actor(Agent, (), nodes, _DATA_CPUS)
        asked = self._actor.start.remote(self._order, age_s)
        since_s: float | None = time.monotonic()
        while not self._is_unwanted:
            try:
                host, pid = self._cluster.get(asked, _ASK_S)
            except ActorSilent:
                if since_s is not None and time.monotonic() - since_s > _WAITING_SAID_AFTER_S:
                    since_s = None
                    self._tell(Said(f"⏳ {self.name} waits for a host: none has a CPU free for it"))
                self._flush()
                continue
            log.info("%s is process %d on %s", self.name, pid, host)
            self._tell(Placed(host))
            self._tell(Phase(STARTING, _STARTING_DEADLINE_S))
            return True
        return False

    def _follow(self) -> int:
        """Hear it out to its end; its status.

        Raises:
            ActorLost: its host or its agent is gone, or was not heard for too long.
        """
        seen, heard_s = 0, time.monotonic()
        while True:
            try:
                news: WorkerNews = self._cluster.get(
                    self._actor.news.remote(seen, _ASK_S), _ASK_S + _ANSWER_S
                )
            except ActorSilent as silent:
                silent_s = time.monotonic() - heard_s
                is_cut = isinstance(silent, ActorUnreachable)
                if silent_s > (_UNREACHABLE_S if is_cut else _SILENT_S):
                    raise ActorLost(f"{silent} for {silent_s:.0f} s") from None
                time.sleep(_TRY_AGAIN_S)
                continue
            heard_s = time.monotonic()
            for line in news.lines[max(0, seen - news.first) :]:
                self._put(line)
            seen = max(seen, news.first + len(news.lines))
            self._is_stopped = news.is_stopped
            self._flush()
            if news.status is not None:
                self._reading = news.reading
                return news.status

    def _tell(self, report: Report) -> None:
        self._put(encode(report))
        self._flush()

    def _put(self, line: bytes) -> None:
        self._unread.append(line)
        self._num_unread_bytes += len(line)
        while self._num_unread_bytes > _MOST_UNREAD_BYTES and len(self._unread) > 2:
            self._num_unread_bytes -= len(self._unread[1])  # the first may be half written
            del self._unread[1]

    def _flush(self) -> None:
        """Write what the launcher has room to read."""
        while self._unread:
            try:
                count = os.write(self._write, self._unread[0])
            except OSError:  # it does not read now, or has given up this child
                return
            self._num_unread_bytes -= count
            self._unread[0] = self._unread[0][count:]
            if not self._unread[0]:
                self._unread.popleft()
