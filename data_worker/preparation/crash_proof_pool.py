"""Work spread over processes, of which any may crash or hang without costing more than its item.

A decoder in C that crashes takes its process with it. The pool then looks at the items that were
being worked on one by one, in fresh processes, until it knows which one it was.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, NamedTuple

from shared.worker.contract import signal_name

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

STALL_S = 120.0  # no chunk finished for so long: something hangs
ALONE_S = 60.0  # what one item may take when it is looked at alone
_PR_SET_PDEATHSIG = 1


class Crashed(NamedTuple):
    """In place of an item's result: how the process that worked on it alone ended."""

    reason: str
    status: int | None = None  # negative for a signal; None when it took too long


def available_cores() -> int:
    return len(os.sched_getaffinity(0))


class CarefulPool:
    """Processes that map a function over items; the result is in the order of the items.

    The function and the items must be picklable, as the processes are spawned. An exception of
    the function ends the map.
    """

    def __init__(self, num_processes: int, stall_s: float = STALL_S, alone_s: float = ALONE_S):
        self._num_processes = max(1, num_processes)
        self._stall_s, self._alone_s = stall_s, alone_s
        self._context = multiprocessing.get_context("spawn")
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> CarefulPool:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._end(kill=_exception[0] is not None)

    def map(
        self,
        task: Callable[[Any], Any],
        items: Sequence[Any],
        chunk_size: int = 16,
        progress: Callable[[int], None] = lambda num_done: None,
    ) -> list[Any]:
        """`task(item)` of every item, or `Crashed` where no process survived it."""
        results: list[Any] = [None] * len(items)
        starts = deque(range(0, len(items), chunk_size))
        in_flight: dict[Future, int] = {}
        num_done = 0
        while starts or in_flight:
            # No more than the processes can hold: all of these are suspects when one crashes.
            while starts and len(in_flight) <= self._num_processes:
                start = starts.popleft()
                try:
                    future = self._running().submit(
                        _run_chunk, task, items[start : start + chunk_size]
                    )
                except BrokenProcessPool:
                    starts.appendleft(start)
                    break
                in_flight[future] = start
            done, _ = wait(in_flight, self._stall_s, FIRST_COMPLETED)
            broken = not done
            for future in done:
                try:
                    chunk = future.result()
                except BrokenProcessPool:
                    broken = True
                    continue
                start = in_flight.pop(future)
                results[start : start + len(chunk)] = chunk
                num_done += len(chunk)
                progress(num_done)
            if broken:
                self._end(kill=True)
                suspects = [
                    number
                    for start in sorted(in_flight.values())
                    for number in range(start, min(start + chunk_size, len(items)))
                ]
                in_flight.clear()
                alone = one_by_one(task, [items[number] for number in suspects], self._alone_s)
                for number, result in zip(suspects, alone, strict=True):
                    results[number] = result
                num_done += len(suspects)
                progress(num_done)
        return results

    def _running(self) -> ProcessPoolExecutor:
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                self._num_processes, self._context, _begin_worker, (os.getpid(),)
            )
        return self._executor

    def _end(self, kill: bool) -> None:
        if self._executor is None:
            return
        if kill:
            for process in list((self._executor._processes or {}).values()):
                process.kill()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = None


def one_by_one(
    task: Callable[[Any], Any], items: Iterable[Any], alone_s: float = ALONE_S
) -> Iterator[Any]:
    """`task(item)` of each item with nothing else in flight, so that a crash names its item."""
    lone = _LoneWorker(task, alone_s)
    try:
        for item in items:
            result = lone.run(item)
            if isinstance(result, Crashed):
                # Convicted only when a process that has done nothing else dies of it too.
                result = lone.run(item)
            yield result
    finally:
        lone.end()


class _LoneWorker:
    """One process that works on one item at a time and is replaced when it dies or hangs."""

    def __init__(self, task: Callable[[Any], Any], alone_s: float):
        self._context = multiprocessing.get_context("spawn")
        self._task, self._alone_s = task, alone_s
        self._process: SpawnProcess | None = None

    def run(self, item: Any) -> Any:
        process = self._process
        if process is None:
            self._ours, theirs = self._context.Pipe()
            process = self._process = self._context.Process(
                target=_serve_alone, args=(theirs, self._task, os.getpid()), daemon=True
            )
            process.start()
            theirs.close()
        try:
            self._ours.send(item)
            if not self._ours.poll(self._alone_s):
                self.end()
                return Crashed(f"looking at it took more than {self._alone_s:g} s")
            failed, result = self._ours.recv()
        except (EOFError, OSError):
            process.join(self._alone_s)
            status = process.exitcode
            self.end()
            reason = f"looking at it crashes the process ({_status_name(status)})"
            return Crashed(reason, status)
        if failed:
            raise result
        return result

    def end(self) -> None:
        if self._process is not None:
            self._ours.close()
            self._process.kill()
            self._process.join()
            self._process = None


def _status_name(status: int | None) -> str:
    return signal_name(-status) if status and status < 0 else f"exit status {status}"


def _run_chunk(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    return [task(item) for item in items]


def _begin_worker(parent: int) -> None:
    """Leave Ctrl-C to the parent, and don't outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)


def _serve_alone(connection: Connection, task: Callable[[Any], Any], parent: int) -> None:
    _begin_worker(parent)
    while True:
        try:
            item = connection.recv()
        except EOFError:
            return
        try:
            answer = (False, task(item))
        except Exception as error:
            answer = (True, error)
        connection.send(answer)
