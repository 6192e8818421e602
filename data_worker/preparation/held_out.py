"""Which rows are held out for validation."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from shared.plan.index import TRAIN, VALIDATION


def hold_out(ids: Sequence[str], groups: Sequence[str], fraction: float, seed: int) -> np.ndarray:
    """The split of each row, uint8 (rows,): a seeded share of the rows is held out.

    The choice hangs on each row's id, so that a row that is added or removed moves no other. At
    least one row is held out if there are two, and every group keeps one to train on where that
    is possible. A fraction of 0 holds nothing out.
    """
    split = np.full(len(ids), TRAIN, np.uint8)
    if fraction <= 0 or len(ids) < 2:
        return split
    wanted = min(max(1, round(len(ids) * fraction)), len(ids) - 1)
    order = sorted(range(len(ids)), key=lambda row: (_rank(seed, ids[row]), row))
    remaining = Counter(groups)
    chosen: list[int] = []
    for row in order:
        if len(chosen) == wanted:
            break
        if remaining[groups[row]] > 1:
            remaining[groups[row]] -= 1
            chosen.append(row)
    split[chosen or order[:1]] = VALIDATION
    return split


def _rank(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
