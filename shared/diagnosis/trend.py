"""Which way a loss goes, in one character."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

_FEWEST = 8


def trend(losses: Iterable[float]) -> str:
    """Down or up, from the older to the newer half; level where their noise is larger."""
    known = [loss for loss in losses if math.isfinite(loss)]
    if len(known) < _FEWEST:
        return ""
    older, newer = np.array_split(np.array(known), 2)
    change = newer.mean() - older.mean()
    noise = np.hypot(older.std() / len(older) ** 0.5, newer.std() / len(newer) ** 0.5)
    return "→" if abs(change) <= noise else "↘" if change < 0 else "↗"
