"""What a device computed, held against what the CPU of the same process computed of the same numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

# As a share of all that the CPU computed. Rounding in other orders, TensorFloat-32 and a few numbers
# that fall on the other side of a threshold stay well below it; wrong numbers do not.
_MOST_DEVIATION = 0.05
_NOTHING_IN_COMMON = 1e9  # where the CPU computed zeros or the device what is no number


def deviations(device: Mapping[str, np.ndarray], cpu: Mapping[str, np.ndarray]) -> dict[str, float]:
    """For each array, how far the device's numbers are from the CPU's: their share of all of them."""
    return {name: _deviation(np.asarray(device[name]), np.asarray(cpu[name])) for name in cpu}


def _deviation(found: np.ndarray, expected: np.ndarray) -> float:
    if found.shape != expected.shape:
        return _NOTHING_IN_COMMON
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    apart, all_of_it = float(np.abs(found - expected).sum()), float(np.abs(expected).sum())
    if apart == 0:
        return 0.0
    share = apart / all_of_it if all_of_it else _NOTHING_IN_COMMON
    return min(share, _NOTHING_IN_COMMON) if np.isfinite(share) else _NOTHING_IN_COMMON


def wrong(found: Mapping[str, float]) -> str:
    """In words, the array that deviates most from the CPU's; empty if all of them agree."""
    name = max(found, key=lambda each: found[each], default="")
    if not name or found[name] <= _MOST_DEVIATION:
        return ""
    share = f"by {found[name]:.0%}" if found[name] < 10 else "entirely"
    return f"{name} differs {share} from what the CPU computes of the same numbers"
