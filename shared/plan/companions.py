"""Which other row of its group goes with each row of a batch."""

from __future__ import annotations

import numpy as np

from shared.hashing import as_uniform, hash_counters
from shared.plan.exclusions import Exclusions

FILLER = -1  # in the place of a row
# See `plan`: one number for each use of the seed.
_COMPANION, _OFFSET, _OTHER = 3, 4, 6


def hashed_start(seed: int, purpose: int, batch: int, slot: int) -> int:
    """Where to begin to look for another row, for one row of a batch."""
    return int(hash_counters(seed, purpose, batch, np.array([slot]))[0])


class _RowsByGroup:
    """The rows of one split by group, to choose companions from."""

    def __init__(self, rows: np.ndarray, group: np.ndarray, num_groups: int):
        self._rows = rows[np.argsort(group[rows], kind="stable")]
        counts = np.bincount(group[rows], minlength=num_groups)
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    def of(self, group: int) -> np.ndarray:
        """The group's rows in rising order, (n,)."""
        return self._rows[self._starts[group] : self._starts[group + 1]]


class Companions:
    """Chosen by hash, so that a batch's are the same whoever makes it.

    Training rows only, also for held-out rows: the row itself where its group has no other. Held-out
    rows serve only groups that have no training row.
    """

    def __init__(
        self, seed: int, group: np.ndarray, train_rows: np.ndarray, validation_rows: np.ndarray
    ):
        self._seed = seed
        known, self._group = np.unique(group, return_inverse=True)
        self._train_groups, self._validation_groups = (
            _RowsByGroup(rows, self._group, len(known)) for rows in (train_rows, validation_rows)
        )

    def of(
        self, batch: int, rows: np.ndarray, epoch: int, exclusions: Exclusions
    ) -> tuple[np.ndarray, np.ndarray]:
        """The companion of each row, int64 (rows,), and its own random number, float64 (rows,)."""
        companions = np.full(len(rows), FILLER, dtype=np.int64)
        offsets = np.zeros(len(rows))
        real = np.flatnonzero(rows != FILLER)
        choices = hash_counters(self._seed, _COMPANION, epoch, rows[real]).tolist()
        for slot, choice in zip(real.tolist(), choices, strict=True):
            row = int(rows[slot])
            others = self._train_groups.of(self._group[row])
            if not len(others):
                others = self._validation_groups.of(self._group[row])
            place = int(np.searchsorted(others, row))
            if place == len(others) or others[place] != row:
                companions[slot] = others[choice % len(others)]
            elif len(others) == 1:
                companions[slot] = row
            else:
                companions[slot] = others[(place + 1 + choice % (len(others) - 1)) % len(others)]
            if exclusions.version and exclusions.excludes(int(companions[slot]), batch):
                start = hashed_start(self._seed, _OTHER, batch, slot)
                other = exclusions.first_usable(others, start, batch, taken={row})
                companions[slot] = row if other is None else other
        offsets[real] = as_uniform(hash_counters(self._seed, _OFFSET, epoch, rows[real]))
        return companions, offsets
