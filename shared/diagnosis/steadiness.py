"""How steadily a device works: the measure of oscillation, and its words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

_FEWEST_WINDOWS = 5


@dataclasses.dataclass(frozen=True)
class Steadiness:
    """Of the busy shares of one-second windows: their 5th percentile and their median."""

    low: float
    middle: float

    @property
    def ratio(self) -> str:
        """p5 / p50: 1 is perfectly steady, 0 is stop and go."""
        return f"{self.low / self.middle:.2f}" if self.middle > 0 else "–"


def steadiness(shares: Sequence[float] | np.ndarray) -> Steadiness | None:
    """Of the shares of a device's windows; None while they are too few to say."""
    if len(shares) < _FEWEST_WINDOWS:
        return None
    low, middle = np.percentile(shares, [5, 50])
    return Steadiness(float(low), float(middle))
