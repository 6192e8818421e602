"""Durations: measured across processes, and as people read them."""

from __future__ import annotations

import time


def machine_s() -> float:
    """Seconds since the machine was started, the same in all of its processes.

    Nobody can set this clock, as they can the one on the wall, and it does not rest in suspension.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: 0:04:31."""
    minutes, seconds = divmod(int(max(0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
