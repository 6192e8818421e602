"""Numbers out of records that were written by whoever: never trusted, never a crash."""

from __future__ import annotations

import math
from typing import TypeGuard


def number(record: dict, name: str) -> float:
    """A number of a record; NaN where it has none, so that a curve has a gap there."""
    value = record.get(name)
    return float(value) if is_number(value) else float("nan")


def finite_number(record: dict, name: str) -> float | None:
    """A number of a record; None where it has none, or one that is not finite."""
    value = number(record, name)
    return value if math.isfinite(value) else None


def whole_number(record: dict, name: str) -> int:
    """A number of a record, rounded; 0 where it has none."""
    return round(finite_number(record, name) or 0)


def numbers(record: dict, name: str) -> list[float]:
    """A list of numbers of a record; anything else is none."""
    value = record.get(name)
    return [float(v) for v in value if is_number(v)] if isinstance(value, list) else []


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is one; True and False are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
