"""What a clip sounds like in four numbers: for check-data, which names the clips worth a look."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

_FLAT_SAMPLES = 3  # so many equal samples at the very top are no accident
_WINDOW_S = 0.02
_QUIET_BELOW_PEAK = 0.01  # -40 dB


class Heard(NamedTuple):
    """Measured on the whole clip, mixed to one channel."""

    peak: float  # 1 is full scale
    level_db: float  # root mean square of what is trained on, against full scale
    clipped_samples: int  # in flat tops and bottoms
    quiet_share: float  # of what is trained on: windows 40 dB below the peak
    digest: bytes  # of the samples: the same for the same audio in another file


def listen(mono: np.ndarray, start: int, stop: int, sample_rate: int) -> Heard:
    """Measure float32 (samples,), of which [start, stop) is trained on."""
    highest, lowest = float(mono.max()), float(mono.min())
    peak = max(highest, -lowest)
    stretch = mono[start:stop]
    level = float(np.sqrt(np.dot(stretch, stretch) / max(1, len(stretch))))
    window = max(1, round(_WINDOW_S * sample_rate))
    windows = np.abs(stretch[: len(stretch) // window * window]).reshape(-1, window).max(axis=1)
    quiet = float((windows < _QUIET_BELOW_PEAK * peak).mean()) if len(windows) else 0.0
    return Heard(
        peak=peak,
        level_db=20 * float(np.log10(max(level, 1e-9))),
        clipped_samples=_flat(mono, highest) + _flat(mono, lowest),
        quiet_share=quiet,
        digest=hashlib.blake2b(np.ascontiguousarray(mono).data, digest_size=16).digest(),
    )


def _flat(mono: np.ndarray, extreme: float) -> int:
    """Samples at the extreme value that follow others of it without a break."""
    places = np.flatnonzero(mono == np.float32(extreme))
    if len(places) < _FLAT_SAMPLES:
        return 0
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    return sum(len(run) for run in runs if len(run) >= _FLAT_SAMPLES)
