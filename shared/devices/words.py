"""Figures of a device in words, where there may be none: a driver does not tell everything."""

from __future__ import annotations

NO_FIGURE = "–"


def share_in_words(share: float | None) -> str:
    """A busy share, such as 63%."""
    return NO_FIGURE if share is None else f"{share:.0%}"
