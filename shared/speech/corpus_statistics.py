"""Means and deviations of a corpus: what every network of speech sees its numbers normalised by."""

from __future__ import annotations

import dataclasses

from shared.plan.index import Index


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Mean and deviation of the corpus: natural log mel, log F0 in Hz, log of energy + 1e-5."""

    mel_mean: float
    mel_std: float
    pitch_mean: float
    pitch_std: float
    energy_mean: float
    energy_std: float

    @classmethod
    def of_index(cls, index: Index) -> Statistics:
        """Those of a run's index."""
        return cls(**{field.name: getattr(index, field.name) for field in dataclasses.fields(cls)})
