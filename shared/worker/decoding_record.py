"""Which examples a data process is decoding, in memory that outlives it.

The launcher reads it at the death of the data process. One that was started by hand has nobody who
does, so its record is a file of the run directory, locked for as long as the process lives: whoever
is started next finds the files that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

from shared.worker.contract import RECORD_VARIABLE, SUSPECTS_VARIABLE

NUM_SLOTS = 1024  # as many readers as a data process can have
_NUM_BYTES = NUM_SLOTS * 8
_FILES = ".reading-"


class ReadingRecord:
    """One slot for each reader thread; it holds the row that the thread is at, or nothing."""

    def __init__(self, memory: mmap.mmap | bytearray | None = None):
        self._memory = bytearray(_NUM_BYTES) if memory is None else memory
        self._slots = memoryview(self._memory).cast("q")

    @classmethod
    def shared(cls) -> tuple[ReadingRecord, int]:
        """A record and the descriptor through which a child finds it; the caller closes that."""
        descriptor = os.memfd_create("tandem-reading", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _NUM_BYTES)
        return cls(mmap.mmap(descriptor, _NUM_BYTES)), descriptor

    @classmethod
    @contextlib.contextmanager
    def of_this_process(cls, run: Path) -> Iterator[ReadingRecord]:
        """The launcher's record, or a file of the run directory for a process started by hand.

        The file is removed when the process ends in order, which is not when it crashes.
        """
        value = os.environ.get(RECORD_VARIABLE)
        if value:
            yield cls(mmap.mmap(int(value), _NUM_BYTES))
            return
        path = run / f"{_FILES}{os.getpid()}"
        try:
            descriptor = _make_locked(path)
        except OSError:  # nothing can be written there: a crash will convict nobody
            yield cls()
            return
        try:
            yield cls(mmap.mmap(descriptor, _NUM_BYTES))
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def begin(self, slot: int, row: int) -> None:
        self._slots[slot] = row + 1

    def end(self, slot: int) -> None:
        self._slots[slot] = 0

    def rows(self) -> tuple[int, ...]:
        """The rows that are being read, or were when the process died."""
        return tuple(sorted({value - 1 for value in self._slots if value}))

    def close(self) -> None:
        self._slots.release()
        if isinstance(self._memory, mmap.mmap):
            self._memory.close()


def _make_locked(path: Path) -> int:
    """A descriptor of a new, empty record, with its lock.

    Raises:
        OSError: it can't be made there.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            # A hole would be filled at a write to the memory: with a crash where the disk is full.
            os.posix_fallocate(descriptor, 0, _NUM_BYTES)
        except OSError:
            os.close(descriptor)
            raise
        if path.exists():
            return descriptor
        os.close(descriptor)  # someone took it for left behind before it was locked


@contextlib.contextmanager
def rows_left_behind(run: Path) -> Iterator[tuple[int, ...]]:
    """The rows that data processes which were started by hand were reading when they died.

    Nobody else gets to see them meanwhile. Their records are removed afterwards, unless that fails.
    """
    rows: set[int] = set()
    with contextlib.ExitStack() as held:
        found = [path for path in sorted(run.glob(f"{_FILES}*")) if _take(path, held, rows)]
        yield tuple(sorted(rows))
        for path in found:
            path.unlink(missing_ok=True)


def _take(path: Path, held: contextlib.ExitStack, rows: set[int]) -> bool:
    """Add the rows of a record that no process has any more, and keep others from it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    held.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    content = os.pread(descriptor, _NUM_BYTES, 0).ljust(_NUM_BYTES, b"\0")
    rows.update(ReadingRecord(bytearray(content)).rows())
    return True


def suspects_from_environment() -> tuple[int, ...]:
    """The rows that this process's predecessor was reading when it crashed."""
    text = os.environ.get(SUSPECTS_VARIABLE, "")
    return tuple(int(row) for row in text.split(",") if row)
