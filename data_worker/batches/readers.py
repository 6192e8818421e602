"""Reader threads: examples from disk, as the task reads them or as features that are kept there."""

from __future__ import annotations

import dataclasses
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from shared.errors import ReadError
from shared.task.users_file import line_in_stack
from shared.worker.decoding_record import ReadingRecord

_RETRY_AFTER_S = (0.1, 0.5, 2.0)
_REMEMBERED_S = 600.0  # storage that was gone may be back


@dataclasses.dataclass(frozen=True)
class ReadExample:
    """One example, and what it cost, retries included: what `read` returned, or its features."""

    raw: Any  # None where the features were at hand
    features: Any  # None where it was read
    reading_ms: float
    decoding_ms: float


class _Reading(NamedTuple):
    """A row that a thread is reading, for whom, and since when."""

    row: int
    future: Future[ReadExample]
    since_s: float


class ReaderPool:
    """Runs `load(row, on_piece)` in threads, first asked first served.

    `load` calls `on_piece()` for every piece of the file that has come from the disk, so that only
    decoding is left after the last. A row that could not be read fails at once when it is asked for
    again: a batch is given up for one row at a time, and with a mount that is gone the retries of
    all the others would take a night.
    """

    def __init__(
        self,
        load: Callable[[int, Callable[[], None]], Any],
        num_threads: int,
        on_progress: Callable[[], None] = lambda: None,
        wait: Callable[[float], object] = time.sleep,
        record: ReadingRecord | None = None,
        look_up: Callable[[int], Any | None] = lambda row: None,
    ):
        """`record` is told which rows are being read, should one of them crash the process.

        `look_up(row)` gives a row's features where they are on disk already; it is asked first.
        """
        self._load = load
        self._look_up = look_up
        self._on_progress = on_progress
        self._wait = wait
        self._record = record or ReadingRecord()
        self._failed: dict[int, tuple[str, float]] = {}  # by row, why, and until when it counts
        self._wanted: queue.SimpleQueue = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._at: dict[threading.Thread, _Reading] = {}  # what each is reading
        self.grow_to(num_threads)

    @property
    def num_threads(self) -> int:
        return len(self._threads)

    def grow_to(self, num_threads: int) -> None:
        while len(self._threads) < num_threads:
            self._threads.append(self._started(len(self._threads)))

    def _started(self, slot: int) -> threading.Thread:
        thread = threading.Thread(
            target=self._run, args=(slot,), name=f"reader-{slot}", daemon=True
        )
        thread.start()
        return thread

    def give_up_slow(self, patience_s: float) -> None:
        """Leave rows that are read for longer than this to their threads, which others replace.

        All of them, wanted at once or not: readers that are all stuck serve nobody. Who waits for
        such a row is told where its thread stands.
        """
        for thread, reading in list(self._at.items()):
            spent_s = time.monotonic() - reading.since_s
            if spent_s <= patience_s or self._at.pop(thread, None) is None:
                continue
            frame = sys._current_frames().get(thread.ident or 0)
            line = line_in_stack(traceback.extract_stack(frame)) if frame is not None else ""
            reason = f"{line}did not come back within {spent_s:.0f} s"
            self._failed[reading.row] = reason, time.monotonic() + _REMEMBERED_S
            reading.future.set_exception(ReadError(reason))
            if thread in self._threads:
                slot = self._threads.index(thread)
                self._record.end(slot)
                self._threads[slot] = self._started(slot)

    def read(self, row: int) -> Future[ReadExample]:
        """The example, in time; a ReadError when it can't be had."""
        future: Future[ReadExample] = Future()
        try:
            self._raise_known_failure(row)
        except ReadError as error:
            future.set_exception(error)
        else:
            self._wanted.put((row, future))
        return future

    def close(self) -> None:
        for _ in self._threads:
            self._wanted.put(None)

    def _run(self, slot: int) -> None:
        me = threading.current_thread()
        while (item := self._wanted.get()) is not None:
            row, future = item
            if not future.set_running_or_notify_cancel():
                continue
            self._at[me] = _Reading(row, future, time.monotonic())
            found: ReadExample | None = None
            failure: BaseException | None = None
            try:
                found = self._read_on_record(slot, row)
            except BaseException as error:
                failure = error
            if self._at.pop(me, None) is None:
                return  # it was given up, and another reads in this one's place
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(found)
            self._on_progress()

    def _read_on_record(self, slot: int, row: int) -> ReadExample:
        self._raise_known_failure(row)  # it may have failed since it was asked for
        self._record.begin(slot, row)
        try:
            return self._load_with_retries(row)
        except ReadError as error:
            self._failed[row] = str(error), time.monotonic() + _REMEMBERED_S
            raise
        finally:
            if threading.current_thread() in self._at:  # else the slot is another's by now
                self._record.end(slot)

    def _raise_known_failure(self, row: int) -> None:
        reason, until_s = self._failed.get(row, ("", 0.0))
        if time.monotonic() < until_s:
            raise ReadError(reason)

    def _load_with_retries(self, row: int) -> ReadExample:
        started_s = fetched_s = time.perf_counter()

        def note_piece() -> None:
            nonlocal fetched_s
            fetched_s = time.perf_counter()
            self._on_progress()

        features = self._look_up(row)
        if features is not None:
            return ReadExample(None, features, (time.perf_counter() - started_s) * 1000, 0.0)
        for pause_s in (*_RETRY_AFTER_S, None):
            try:
                raw = self._load(row, note_piece)
            except ReadError as error:
                if not error.transient or pause_s is None:
                    raise
                self._on_progress()  # storage that answers with an error does answer
                self._wait(pause_s)
                continue
            done_s = time.perf_counter()
            reading_ms, decoding_ms = (fetched_s - started_s) * 1000, (done_s - fetched_s) * 1000
            return ReadExample(raw, None, reading_ms, decoding_ms)
        raise AssertionError("unreachable")


def next_reader_count(current: int, maximum: int, waited_share: float, cores_busy: float) -> int:
    """How many readers to use next, from what the last batches measured.

    More readers help only while the batches wait for them and the cores are not the reason: then
    it is the storage that is slow, and its delays can be overlapped.
    """
    if waited_share > 0.2 and cores_busy < 0.85:
        return min(maximum, current * 2)
    return current
