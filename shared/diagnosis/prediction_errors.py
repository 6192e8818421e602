"""Where a GPU is other than what was predicted of it: a pure comparison."""

from __future__ import annotations

from collections.abc import Mapping

_MEMORY_OFF = 0.15  # of the prediction; less is what an allocator rounds up
_OFF = 1.25  # more than so many times the model, or less


def memory_error(size: str, predicted_mb: int, allocated_mb: int | None) -> str:
    """What was wrong with the memory that was predicted; empty where it was right or nobody knows."""
    if allocated_mb is None or abs(allocated_mb - predicted_mb) <= _MEMORY_OFF * predicted_mb:
        return ""
    return (
        f"{size or 'the model'}: {predicted_mb:,} MB were predicted for a step, and TensorFlow took "
        f"{allocated_mb:,} MB"
    )


def model_errors(size: str, found: Mapping[str, float], modelled: Mapping[str, float]) -> list[str]:
    """Every figure of the stand-in driver's that the device's own is far from, in words."""
    wrong = []
    for name, expected in modelled.items():
        if name not in found or not expected:
            continue
        ratio = found[name] / expected
        if not 1 / _OFF <= ratio <= _OFF:
            wrong.append(
                f"{size}: {name.replace('_', ' ')} {found[name]:,.4g}, modelled {expected:,.4g}"
            )
    return wrong
