"""Random numbers that are hashes: any of them can be had without those before it.

They are the same on every platform and with every version of numpy.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

_Word = TypeVar("_Word", int, np.ndarray)
_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _mix(word: _Word) -> _Word:
    """The finaliser of SplitMix64, a bijection of 64-bit words; Python int or uint64 array."""
    if isinstance(word, int):
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
        return word ^ (word >> 31)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def hash_counters(seed: int, purpose: int, context: int, counters: np.ndarray) -> np.ndarray:
    """Hashes integers ≥ 0, (n,), into uint64 (n,); distinct counters give distinct hashes."""
    state = 0
    for part in (seed, purpose, context):
        state = _mix((state + _GOLDEN) & _WORD ^ int(part) & _WORD)
    counters = np.asarray(counters).astype(np.uint64)
    return _mix((counters + np.uint64(1)) * np.uint64(_GOLDEN) + np.uint64(state))


def as_uniform(hashes: np.ndarray) -> np.ndarray:
    """Hashes as numbers in [0, 1), float64 of the same shape."""
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53
