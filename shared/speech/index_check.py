"""What an index of speech must hold, beside what every index does."""

from __future__ import annotations

import numpy as np

from shared.errors import DataError
from shared.plan.index import Index, RaggedColumn, numbers_of
from shared.speech.mel import FFT, MEL_BINS

STATISTICS = ("mel_mean", "mel_std", "pitch_mean", "pitch_std", "energy_mean", "energy_std")
_AT_LEAST = {
    "start": 0, "num_samples": 1, "num_channels": 1, "sample_rate": 1, "num_frames": 1,
    "num_symbols": 1, "speaker": 0,
}  # fmt: skip


def check_speech(index: Index) -> None:
    """See that an index has everything that speech needs, and nothing impossible.

    Raises:
        DataError: names what is missing or impossible.
    """
    try:
        problem = _problem(index)
    except (KeyError, TypeError, ValueError, AttributeError):
        problem = "a part of it is missing or damaged"
    if problem:
        raise DataError(
            f"The index is not one of speech that can be used ({problem}). Remove the run's "
            "index.safetensors and start the run once more: the data is then looked at again."
        )


def _problem(index: Index) -> str:
    symbols = index.columns["symbols"]
    if not isinstance(symbols, RaggedColumn) or symbols.values.dtype != np.int16:
        return "column symbols does not fit the others"
    if not np.array_equal(np.diff(symbols.offsets), numbers_of(index, "num_symbols")):
        return "column num_symbols does not fit the symbols"
    basis = index.tables["mel_basis"]
    if basis.shape != (MEL_BINS, FFT // 2 + 1) or basis.dtype != np.float32:
        return "its mel basis has another shape"
    statistics = [float(index.facts[name]) for name in STATISTICS]
    if not np.isfinite(statistics).all() or not np.isfinite(basis).all():
        return "a statistic of it is not finite"
    highest = {"speaker": len(index.facts["speakers"]) - 1}
    for name, lowest in _AT_LEAST.items():
        if _is_outside(numbers_of(index, name), lowest, highest.get(name)):
            return f"column {name} holds an impossible number"
    if _is_outside(symbols.values, 1, len(index.facts["symbol_table"]) - 1):
        return "column symbols holds an impossible number"
    return ""


def _is_outside(values: np.ndarray, lowest: int, highest: int | None) -> bool:
    if not len(values):
        return False
    return bool(values.min() < lowest or (highest is not None and values.max() > highest))
