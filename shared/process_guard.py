"""What every child of the launcher does first: die with it, and be able to show its stack."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys

PARENT_VARIABLE = "TANDEM_LAUNCHER_PID"
_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent dies, even if it is stopped then."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # it died before we asked
        os._exit(1)


def guard_worker() -> None:
    """For a worker's first lines: crash reports, stack dumps on SIGUSR2, death with the launcher."""
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR2, file=sys.stderr, all_threads=True, chain=False)
    parent = os.environ.get(PARENT_VARIABLE)
    if parent:
        die_with_parent(int(parent))
