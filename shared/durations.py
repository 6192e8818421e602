"""Durations as people read them."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: 0:04:31."""
    minutes, seconds = divmod(int(max(0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
