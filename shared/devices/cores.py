"""Shares of the CPU: a fake GPU is a role's half of the cores, and its busy share is theirs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def share_of(role: str, cores: list[int]) -> list[int]:
    """The half of the cores that a role has on fake GPUs: 'data' the first, 'model' the rest."""
    half = max(1, len(cores) // 2)
    return cores[:half] if role == "data" else cores[half:] or cores


_all_cores: set[int] = set()  # of a process that keeps to a share of them


def pin_to_share(role: str) -> int:
    """Keep this process on its role's share of the cores; returns how many there are."""
    _all_cores.update(os.sched_getaffinity(0))
    mine = share_of(role, sorted(_all_cores))
    os.sched_setaffinity(0, mine)
    return len(mine)


def free_this_thread() -> None:
    """Let this thread use every core: beside a real GPU, receiving and copying cost it nothing."""
    if _all_cores:
        os.sched_setaffinity(0, _all_cores)


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def resident_mb() -> int:
    """Memory that this process has taken, in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


class BusyMeter:
    """The busy share of this process's device, over windows of one second.

    Of a real GPU it is what its driver says; without one, the share of its cores that the process
    used, and the process's own memory.
    """

    def __init__(
        self,
        gpu_share: Callable[[], float | None] | None = None,
        window_s: float = 1.0,
        memory_mb: Callable[[], int] | None = None,
    ):
        self._gpu_share = gpu_share
        self.memory_mb = memory_mb or resident_mb
        self._window_s = window_s
        self._since_s = time.monotonic()
        self._cpu_s = time.process_time()
        # Of the last window that has ended; None where the driver doesn't say, as of a MIG slice.
        self.share: float | None = 0.0

    @property
    def rounded_share(self) -> float | None:
        """The same, as it is written down."""
        return None if self.share is None else round(self.share, 4)

    def latest(self) -> float:
        """The share of the last window that has ended, looked at now; of cores, which always tell."""
        self.sample()
        return self.share or 0.0

    def sample(self) -> bool:
        """Whether a window has just ended, whose share is then known, as far as it can be."""
        now_s, cpu_s = time.monotonic(), time.process_time()
        if now_s - self._since_s < self._window_s:
            return False
        if self._gpu_share is not None:
            self.share = self._gpu_share()
        else:
            self.share = min(1.0, (cpu_s - self._cpu_s) / (now_s - self._since_s) / num_cores())
        self._since_s, self._cpu_s = now_s, cpu_s
        return True
