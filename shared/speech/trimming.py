"""Where speech begins and ends in a recording: the same for the corpus and for a reference clip."""

from __future__ import annotations

import numpy as np

TRIM_BLOCK_S, TRIM_MARGIN_S = 0.01, 0.05


def trim(mono: np.ndarray, rate: int, trim_db: float) -> tuple[int, int]:
    """The stretch between the silences at both ends, as (start, stop) in samples.

    A block of 10 ms whose level is more than `trim_db` below the clip's peak is silent; 50 ms of
    silence are kept at each end. `mono` is float32 (samples,).
    """
    block = max(1, round(TRIM_BLOCK_S * rate))
    num_blocks = len(mono) // block
    if num_blocks < 2:
        return 0, len(mono)
    blocks = mono[: num_blocks * block].reshape(num_blocks, block)
    power = np.einsum("ij,ij->i", blocks, blocks) / block
    peak = max(float(mono.max()), -float(mono.min()))
    loud = np.flatnonzero(power > (peak * 10 ** (-trim_db / 20)) ** 2)
    if not len(loud):
        return 0, len(mono)
    margin = round(TRIM_MARGIN_S * rate)
    start = max(0, int(loud[0]) * block - margin)
    stop = min(len(mono), (int(loud[-1]) + 1) * block + margin)
    # What is left over after the last whole block belongs to the end of the clip.
    return start, len(mono) if loud[-1] == num_blocks - 1 else stop
