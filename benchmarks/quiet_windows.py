"""Measuring on a machine that others use too: windows of time, of which the least disturbed count.

A window is about a second. What other programs used of the two cores in it is what the kernel says
the cores were busy, less what the benchmark's own processes used. On an idle machine all windows
are alike; on a busy one the fairest are taken, and how fair they were is part of the result.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

ROOT_VARIABLE = "TANDEM_BENCH_ROOT"  # pid of the script whose descendants are the benchmark's own
WINDOW_S = 1.0
QUIET = 0.04  # others' share of the cores up to which a window is as good as any
# Before anything is measured, from the first step on: what was made or read ahead while a contender
# started is used up first, and for seconds a side that has nothing else to do looks faster than it is.
WARM_UP_S = 8.0
PATIENCE = 4.0  # at most so many times the time asked for is spent on waiting for quiet windows
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Window:
    """So many steps in so many seconds, and others' share of the cores meanwhile."""

    count: float
    wall_s: float
    others: float


@dataclasses.dataclass(frozen=True)
class Rate:
    """Steps per second over the quietest windows, and others' share of the cores in them."""

    per_s: float
    others: float


def cpu_seconds_of_others() -> float:
    """CPU time that programs other than the benchmark's have used since the machine started."""
    busy = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == "cpu":
            user, nice, system, _, _, irq, softirq = map(int, ticks[:7])
            busy = user + nice + system + irq + softirq
    return (busy - sum(_own_ticks().values())) / _TICKS


def _own_ticks() -> dict[int, int]:
    """CPU ticks of the benchmark's processes, those that ended included in their parents'."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            pid = int(entry.name)
            parents[pid] = int(fields[1])
            ticks[pid] = sum(map(int, fields[11:15]))
    own = {int(os.environ.get(ROOT_VARIABLE) or os.getpid())}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in own} - own
        grown = bool(more)
        own |= more
    return {pid: ticks[pid] for pid in own if pid in ticks}


def share(others_s: float, wall_s: float) -> float:
    return max(0.0, others_s / wall_s / (os.cpu_count() or 1))


def quietest(windows: list[Window], seconds: float) -> Rate:
    """The rate over the quietest windows that make up so many seconds."""
    chosen, wall_s = [], 0.0
    for window in sorted(windows, key=lambda window: window.others):
        if wall_s < seconds:
            chosen.append(window)
            wall_s += window.wall_s
    others = sum(window.others * window.wall_s for window in chosen) / wall_s
    return Rate(sum(window.count for window in chosen) / wall_s, others)


def enough(windows: list[Window], seconds: float) -> bool:
    """Whether there are quiet windows for so many seconds, or waiting for them took too long."""
    quiet_s = sum(window.wall_s for window in windows if window.others <= QUIET)
    return quiet_s >= seconds or sum(w.wall_s for w in windows) >= PATIENCE * seconds


def rate_of(step: Callable[[], object], seconds: float, warm_up_s: float = WARM_UP_S) -> Rate:
    """How often `step` runs in a second, after a warm-up of so many."""
    step()
    warm_s = time.monotonic() + warm_up_s
    while time.monotonic() < warm_s:
        step()
    windows: list[Window] = []
    while not enough(windows, seconds):
        others_s, begun_s, count = cpu_seconds_of_others(), time.perf_counter(), 0
        while (wall_s := time.perf_counter() - begun_s) < WINDOW_S:
            step()
            count += 1
        others_s = cpu_seconds_of_others() - others_s
        windows.append(Window(count, wall_s, share(others_s, wall_s)))
    return quietest(windows, seconds)


def rate_per_cpu_second(step: Callable[[], object], seconds: float, warm_up: int) -> float:
    """How often `step` runs in a second of processor time: what a core does."""
    for _ in range(warm_up):
        step()
    count, begun_s = 0, time.process_time()
    while (cpu_s := time.process_time() - begun_s) < seconds:
        step()
        count += 1
    return count / cpu_s
