"""What every child of the launcher does first: die with it, and be able to show its stack."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys

from shared.worker.contract import PARENT_VARIABLE

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
_LARGEST_MMAP_THRESHOLD_BYTES = 32 << 20  # glibc refuses more
_TRIM_THRESHOLD_BYTES = 1 << 30


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent dies, even if it is stopped then."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # it died before we asked
        os._exit(1)


def keep_freed_memory() -> None:
    """Have the C library keep what batches leave behind for the batches to come.

    It would give the memory back to the kernel and get it again page by page, each of them zeroed:
    for a batch of 8 MB that costs as much as receiving it.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)


def guard_worker() -> None:
    """For a worker's first lines: crash reports, stack dumps on SIGUSR2, death with the launcher."""
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR2, file=sys.stderr, all_threads=True, chain=False)
    parent = os.environ.get(PARENT_VARIABLE)
    if parent:
        die_with_parent(int(parent))
