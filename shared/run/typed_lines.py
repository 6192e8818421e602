"""Dataclasses as lines of JSON, and back: a line that is not exactly one of them is nothing.

A line names its class in `kind`. Fields may be str, int, float, bool, dict, a tuple of one of these,
another dataclass, an enum of strings, or any of them or None.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any


def encode(value: Any) -> bytes:
    """A dataclass as one line."""
    fields = dataclasses.asdict(value)
    return json.dumps({"kind": kind_of(type(value)), **fields}).encode() + b"\n"


def kind_of(kind: type) -> str:
    """What a class is called on its lines."""
    return kind.__name__.lower()


def decoder(kinds: Iterable[type]) -> Callable[[str | bytes], Any]:
    """A function from a line to one of these dataclasses; None for any other line."""
    by_name = {kind_of(kind): kind for kind in kinds}

    def decode(line: str | bytes) -> Any:
        try:
            found = json.loads(line)
            return _made(by_name[found["kind"]], found)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None

    return decode


@functools.cache
def _fields_of(kind: type) -> dict[str, tuple[Any, bool]]:
    """Type of each field, and whether it may be missing."""
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return {
        field.name: (
            hints[field.name],
            field.default is not missing or field.default_factory is not missing,
        )
        for field in dataclasses.fields(kind)
    }


def _made(kind: type, found: Any) -> Any:
    """Raises one of the errors that `decode` knows where it does not fit."""
    if not isinstance(found, dict):
        raise TypeError
    values = {}
    for name, (wanted, may_be_missing) in _fields_of(kind).items():
        if name in found or not may_be_missing:
            values[name] = _fitting(wanted, found[name])
    return kind(**values)


def _fitting(wanted: Any, value: Any) -> Any:
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):  # X | None
        (other,) = (each for each in inner if each is not type(None))
        return None if value is None else _fitting(other, value)
    if origin is tuple:
        if not isinstance(value, list):
            raise TypeError
        return tuple(_fitting(inner[0], each) for each in value)
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        return _made(wanted, value)
    if isinstance(wanted, enum.EnumType):
        return wanted(value)
    plain = origin or wanted
    if plain is float and type(value) is int:
        return float(value)
    if type(value) is not plain:
        raise TypeError
    return value
