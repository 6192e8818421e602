"""Which utterances a data process is decoding, in memory that the launcher reads at its death."""

from __future__ import annotations

import mmap
import os

RECORD_VARIABLE = "TANDEM_READING_FD"
SUSPECTS_VARIABLE = "TANDEM_SUSPECTS"
NUM_SLOTS = 1024  # as many readers as a data process can have
_NUM_BYTES = NUM_SLOTS * 8


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
    def from_environment(cls) -> ReadingRecord:
        """The launcher's record, or one of its own for a process that was started by hand."""
        value = os.environ.get(RECORD_VARIABLE)
        return cls(mmap.mmap(int(value), _NUM_BYTES) if value else None)

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


def suspects_from_environment() -> tuple[int, ...]:
    """The rows that this process's predecessor was reading when it crashed."""
    text = os.environ.get(SUSPECTS_VARIABLE, "")
    return tuple(int(row) for row in text.split(",") if row)
