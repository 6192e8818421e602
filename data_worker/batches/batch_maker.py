"""Tickets to batches: examples are read ahead in threads, features made a batch at a time.

Of the batches that are asked for, by one model process or by several that share a run's stream, the
one with the lowest number is made first: it is the one that will be waited for.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from data_worker.batches.batch_filler import BatchFiller
from data_worker.batches.movement import Movement
from data_worker.batches.readers import ReaderPool, ReadExample, next_reader_count
from shared.diagnosis.wait_attribution import Made
from shared.errors import ReadError
from shared.plan.exclusions import Exclusions
from shared.plan.plan import FILLER, BatchPlan, Plan
from shared.task import BatchShape

_TUNE_EVERY_BATCHES = 8
_IDLE_OVER_BATCHES = 16
MAX_READERS = 64
# Tickets at once, to begin with: enough to read ahead, few enough to share the work out evenly.
_FIRST_CAPACITY = 8
# Features that take longer are announced, batch by batch: on a machine that is busy with other things
# they could take longer than a process may be silent.
_QUICK_S = 1.0
_LOOK_EVERY_S = 1.0


@dataclasses.dataclass(frozen=True)
class MadeBatch:
    """A finished batch, and where its time went; the times are those of `perf_counter`."""

    batch: int
    exclusions_version: int
    arrays: dict[str, np.ndarray]
    made: Made
    submitted_s: float
    finished_s: float


@dataclasses.dataclass(frozen=True)
class FailedRow:
    """A batch that can't be made because of one example."""

    batch: int
    row: int
    reason: str


@dataclasses.dataclass
class _Job:
    """One ticket, while its batch is made."""

    plan: BatchPlan
    version: int
    features: dict[int, Any]  # row -> known
    read: dict[int, Future[ReadExample]]  # row -> to come
    submitted_s: float
    take_memory: Callable[[int], np.ndarray | None]
    look_up_ms: float = 0.0

    def graphs(self, raws: dict[int, Any]) -> tuple[BatchShape, bool, bool]:
        """The graphs that it needs: those of this shape, of features and of companions or not."""
        rows = set(self.plan.rows.tolist())
        has_companions = not raws.keys() <= rows
        return self.plan.shape, not raws.keys().isdisjoint(rows), has_companions


class BatchMaker:
    """Works on tickets, the lowest number first; decoding, features and sending overlap."""

    def __init__(
        self,
        plan: Plan,
        filler: BatchFiller,
        readers: ReaderPool,
        on_done: Callable[[MadeBatch | FailedRow | BaseException], None],
        movement: Movement,
        cores_busy: Callable[[], float] = lambda: 1.0,
        max_readers: int = MAX_READERS,
    ):
        """`movement` is told of the beginning and of the end of what may take a while.

        That is features whose graphs have to be made, or have not been seen to be quick.
        """
        self._plan = plan
        self._filler = filler
        self._task = filler.task
        self._cache = filler.cache
        self._readers = readers
        self._on_done = on_done
        self._cores_busy = cores_busy
        self._max_readers = max_readers
        self._movement = movement
        self._quick: set[tuple[BatchShape, bool, bool]] = set()
        # By number of the batch; of two jobs for one batch, the older first.
        self._jobs: queue.PriorityQueue[tuple[float, int, _Job | None]] = queue.PriorityQueue()
        self._job_numbers = itertools.count()
        self._waited_ms = self._worked_ms = 0.0
        self._idle_and_all_ms: deque[tuple[float, float]] = deque(maxlen=_IDLE_OVER_BATCHES)
        self._num_made = 0
        self.capacity = _FIRST_CAPACITY
        self._thread = threading.Thread(target=self._run, name="features", daemon=True)
        self._thread.start()

    def submit(
        self,
        batch: int,
        exclusions: Exclusions,
        take_memory: Callable[[int], np.ndarray | None] = lambda num_bytes: None,
    ) -> None:
        """Begin with a ticket: what is not at hand is asked of the readers at once.

        `take_memory(num_bytes)` gives memory that whoever asks for the batch has a use for.
        It reads no file itself: who calls it has a socket and a launcher to answer.
        """
        submitted_s = time.perf_counter()
        plan = self._plan.batch(batch, exclusions)
        job = _Job(plan, exclusions.version, {}, {}, submitted_s, take_memory)
        for row in np.unique(np.concatenate([plan.rows, plan.companions])).tolist():
            if row == FILLER:
                continue
            known = self._cache.at_hand(row)
            if known is None:
                job.read[row] = self._readers.read(row)
            else:
                job.features[row] = known
        job.look_up_ms = (time.perf_counter() - job.submitted_s) * 1000
        self._jobs.put((batch, next(self._job_numbers), job))

    @property
    def num_cached(self) -> int:
        """Examples whose features need not be made again."""
        return self._cache.num_entries

    def close(self) -> None:
        self._jobs.put((math.inf, next(self._job_numbers), None))

    def _run(self) -> None:
        free_s = None  # before the first ticket it was not idle: the run had not begun
        while (job := self._jobs.get()[2]) is not None:
            idle_s = time.perf_counter() - free_s if free_s is not None else 0.0
            try:
                self._on_done(self._make(job, idle_s * 1000))
            except BaseException as error:  # the serving loop decides what it means
                self._on_done(error)
            free_s = time.perf_counter()

    def _make(self, job: _Job, idle_ms: float) -> MadeBatch | FailedRow:
        started_s = time.perf_counter()
        raws: dict[int, Any] = {}
        reading_ms = decoding_ms = 0.0
        for row, future in job.read.items():
            try:
                read = self._wait_for(future)
            except ReadError as error:
                return FailedRow(job.plan.index, row, str(error))
            if read.features is not None:
                job.features[row] = read.features
            else:
                raws[row] = read.raw
            reading_ms += read.reading_ms
            decoding_ms += read.decoding_ms
        read_at_s = time.perf_counter()
        graphs = job.graphs(raws)
        is_announced = graphs not in self._quick
        if is_announced:
            self._movement.long_work(True)
        graphs_before = self._task.num_graphs
        arrays = self._filler.fill(job.plan, job.features, raws, job.take_memory)
        has_compiled = self._task.num_graphs > graphs_before
        done_s = time.perf_counter()
        if is_announced:
            self._movement.long_work(False)
        if not has_compiled and done_s - read_at_s < _QUICK_S:
            self._quick.add(graphs)
        else:
            self._quick.discard(graphs)  # the disk that features are kept on may have become slow
        read_wait_ms, features_ms = (read_at_s - started_s) * 1000, (done_s - read_at_s) * 1000
        self._tune(read_wait_ms, features_ms)
        self._idle_and_all_ms.append((idle_ms, idle_ms + read_wait_ms + features_ms))
        idle, all_ms = (sum(each) for each in zip(*self._idle_and_all_ms, strict=True))
        made = Made(
            look_up=job.look_up_ms,
            read_wait=read_wait_ms,
            reading=reading_ms,
            decoding=decoding_ms,
            features=0.0 if has_compiled else features_ms,
            compiling=features_ms if has_compiled else 0.0,
            idle_share=idle / max(1e-9, all_ms),
            readers=float(self._readers.num_threads),
            cores_busy=self._cores_busy(),
        )
        return MadeBatch(job.plan.index, job.version, arrays, made, job.submitted_s, done_s)

    def _wait_for(self, future: Future[ReadExample]) -> ReadExample:
        """What is read of a row. Where the task has patience for it, a slow one is no hang.

        Raises:
            ReadError: it can't be had, or is not there in time.
        """
        if not self._task.patience_s:  # a read that hangs is then the launcher's to see
            return future.result()
        while True:
            try:
                return future.result(_LOOK_EVERY_S)
            except TimeoutError:
                self._readers.give_up_slow(self._task.patience_s)
                self._movement.note()

    def _tune(self, waited_ms: float, worked_ms: float) -> None:
        self._waited_ms += waited_ms
        self._worked_ms += worked_ms
        self._num_made += 1
        if self._num_made % _TUNE_EVERY_BATCHES == 0:
            share = self._waited_ms / max(1e-9, self._waited_ms + self._worked_ms)
            before = self._readers.num_threads
            count = next_reader_count(before, self._max_readers, share, self._cores_busy())
            self._readers.grow_to(count)
            # More readers need more tickets to read for.
            self.capacity = max(self.capacity, self.capacity * count // before)
            self._waited_ms = self._worked_ms = 0.0
