"""Memory that a data process shares with the model process of its host: batches are not copied.

A data process makes its batches in the slots of an anonymous file (memfd), and over the socket goes
only where in it a batch lies. The model process maps the same pages and trains from them. The first
page holds a mark for each slot: the data process sets it when it hands a batch over, the model
process clears it when nothing there refers to the batch any more. So a slot is written again only
when both sides are done with it, without a message, and whatever becomes of a batch.

Nothing has a name that could be left behind: the pages are gone with the last process that maps
them, and a batch that was handed over outlives the process that made it. The file can't shrink
under its reader (it is sealed), and no size of /dev/shm limits it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import threading
import uuid
import weakref

import numpy as np

from shared.errors import ProtocolError

_MARKS_BYTES = mmap.PAGESIZE
_SEALS = getattr(fcntl, "F_SEAL_SHRINK", 0) | getattr(fcntl, "F_SEAL_GROW", 0)
MAX_SLOTS = _MARKS_BYTES


def _name_of(token: str) -> str:
    """What the kernel calls the file, for whoever looks at a process's descriptors."""
    return f"tandem-batches-{token}"


def _in_pages(num_bytes: int) -> int:
    return -(-num_bytes // mmap.PAGESIZE) * mmap.PAGESIZE


class BatchMemory:
    """A data process's own memory. Blocks are taken in one thread and handed over in another."""

    def __init__(self, block_bytes: int, num_slots: int):
        """Slots for blocks of up to `block_bytes`; pages are real once they are written to.

        Raises:
            OSError: this system has no such memory.
        """
        if not hasattr(os, "memfd_create"):
            raise OSError("this system has no memfd_create")
        self.token = uuid.uuid4().hex
        self.slot_bytes = _in_pages(block_bytes)
        self._num_slots = min(num_slots, MAX_SLOTS)
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        self.descriptor = os.memfd_create(_name_of(self.token), flags)
        os.ftruncate(self.descriptor, _MARKS_BYTES + self._num_slots * self.slot_bytes)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEALS | fcntl.F_SEAL_SEAL)
        self._map = mmap.mmap(self.descriptor, 0)
        self._marks = np.frombuffer(self._map, np.uint8, self._num_slots)
        self._first_byte = _address(self._marks)
        self._in_use: set[int] = set()  # slots whose block something in this process refers to
        self._lock = threading.Lock()

    def take(self, num_bytes: int) -> np.ndarray | None:
        """A block, uint8 (bytes,), with what was left in it; None when no slot is free.

        The lowest slots are taken first, so that no more pages become real than are needed.
        """
        if num_bytes > self.slot_bytes:
            return None
        with self._lock:
            for slot in range(self._num_slots):
                if slot not in self._in_use and not self._marks[slot]:
                    self._in_use.add(slot)
                    break
            else:
                return None
        begin = _MARKS_BYTES + slot * self.slot_bytes
        block = np.frombuffer(self._map, np.uint8, num_bytes, begin)
        weakref.finalize(block, self._in_use.discard, slot).atexit = False
        return block

    def hand_over(self, block: np.ndarray) -> int:
        """Mark the block's slot as the model process's; where it is, or 0 for a block from elsewhere."""
        begin = _address(block) - self._first_byte
        slot, rest = divmod(begin - _MARKS_BYTES, self.slot_bytes)
        if rest or not 0 <= slot < self._num_slots:
            return 0
        self._marks[slot] = 1
        return begin

    @property
    def is_handed_over(self) -> bool:
        """Whether the model process has, or may have, any of the slots."""
        return bool(self._marks.any())

    def close(self) -> None:
        """Let nobody map this memory any more; blocks that are in use stay."""
        os.close(self.descriptor)


class PeerMemory:
    """The memory of a data process, as the model process maps it. Lives in the receiving thread."""

    def __init__(self, pid: int, descriptor: int, slot_bytes: int, token: str):
        """`descriptor` is the number that the process `pid` had for it when it told.

        Raises:
            OSError: it can't be opened, is not memory that its owner can't take away, or not that
                of the token: the owner may have left it, and other memory may have the number.
        """
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        opened = os.open(f"/proc/{pid}/fd/{descriptor}", flags)
        try:
            found = os.fstat(opened)
            seals = fcntl.fcntl(opened, fcntl.F_GET_SEALS)
            if os.readlink(f"/proc/self/fd/{opened}") != f"/memfd:{_name_of(token)} (deleted)":
                raise OSError("its owner uses other memory by now")
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
                raise OSError("it is not a file of this user")
            if not seals & fcntl.F_SEAL_SHRINK:
                raise OSError("its owner could cut it off")
            num_slots, rest = divmod(found.st_size - _MARKS_BYTES, max(1, slot_bytes))
            if rest or not 0 < num_slots <= MAX_SLOTS or slot_bytes % mmap.PAGESIZE:
                raise OSError("its size does not fit its slots")
            self._marks = np.frombuffer(mmap.mmap(opened, _MARKS_BYTES), np.uint8)
            self._map = mmap.mmap(opened, 0, prot=mmap.PROT_READ)
        finally:
            os.close(opened)
        self._slot_bytes = slot_bytes
        self._num_slots = num_slots
        self._held: set[int] = set()

    def block(self, begin: int, num_bytes: int) -> np.ndarray:
        """The block that was handed over at `begin`, read-only; freed when nothing refers to it.

        Raises:
            ProtocolError: there is none.
        """
        slot, rest = divmod(begin - _MARKS_BYTES, self._slot_bytes)
        if rest or not 0 <= slot < self._num_slots or num_bytes > self._slot_bytes:
            raise ProtocolError(f"arrays at {begin} of shared memory, where no slot for them is.")
        if slot in self._held or not self._marks[slot]:
            raise ProtocolError(f"arrays at {begin} of shared memory that were not handed over.")
        block = np.frombuffer(self._map, np.uint8, num_bytes, begin)
        self._held.add(slot)
        weakref.finalize(block, _give_back, self._held, self._marks, slot).atexit = False
        return block


def _give_back(held: set[int], marks: np.ndarray, slot: int) -> None:
    held.discard(slot)
    marks[slot] = 0


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
