"""What the replicas of a run say to each other, as plain dataclasses, and their bytes.

One word is one multipart message: a small msgpack header, then each array as a frame of its own. Only
processes of one run say these, over a socket that is open to one user alone; what can't be a word is
refused all the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np

from shared.errors import ProtocolError

VERSION = 1
_MAX_HEADER_BYTES = 64 << 20  # of a beginning: every exclusion of the run is in it


@dataclasses.dataclass(frozen=True)
class Joined:
    """A replica is ready to begin."""

    rank: int


@dataclasses.dataclass(frozen=True)
class Begin:
    """All replicas begin here. Its arrays are those of the state, in the order of `names`.

    `session` counts beginnings: words of an earlier one are void.
    """

    session: int
    step: int
    next_batch: int
    exclusions: list
    skipped: list  # stretches [first, last] of the stream that nobody trains on
    counters: dict
    names: list  # [group, name] of each array


@dataclasses.dataclass(frozen=True)
class Contribution:
    """What one or more batches of a replica say.

    Its arrays: the vector, added up over them, and of each its operands (batches, values).
    """

    session: int
    step: int
    batch: int  # the last of them, of the stream
    facts: list  # one dict for each: its `TrainedBatch`, and what the log adds up
    times: dict  # of `ReplicaTimes`


@dataclasses.dataclass(frozen=True)
class GoOn:
    """All replicas have said that much: go on with further batches of the step."""

    session: int


@dataclasses.dataclass(frozen=True)
class Total:
    """The step is whole: move the weights by this sum, and in this way.

    Its arrays: the sum, and the operands of all batches (batches, values), in their order.
    """

    session: int
    rate: float
    ema_decay: float


@dataclasses.dataclass(frozen=True)
class Stop:
    """The run ends, or pauses, for all replicas: end with this exit code."""

    code: int


@dataclasses.dataclass(frozen=True)
class Here:
    """The first replica is there, and waits."""


@dataclasses.dataclass(frozen=True)
class Knows:
    """A replica knows so many of the exclusions."""

    session: int
    rank: int
    version: int


@dataclasses.dataclass(frozen=True)
class CannotMake:
    """Example `row` can't be read, found while a batch of this replica's was made."""

    session: int
    row: int
    batch: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Excluded:
    """These come after the first `version` exclusions."""

    session: int
    version: int
    entries: list


@dataclasses.dataclass(frozen=True)
class MakeAgain:
    """Every replica knows what `batch` is to be made without."""

    session: int
    batch: int


Word = (
    Joined | Begin | Contribution | GoOn | Total | Stop | Here
    | Knows | CannotMake | Excluded | MakeAgain
)  # fmt: skip
_KINDS: dict[str, type] = {kind.__name__: kind for kind in Word.__args__}
_TYPES = {"int": int, "float": float, "str": str, "list": list, "dict": dict}


def encode(word: Word, arrays: Sequence[np.ndarray] = ()) -> list[Any]:
    """The frames of a word; the arrays are not copied."""
    forms = [[array.dtype.str, list(array.shape)] for array in arrays]
    header = {"v": VERSION, "word": type(word).__name__, "arrays": forms, **_fields(word)}
    # Of an array without dimensions there is no buffer; one of a scalar's bytes is the same.
    frames = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays]
    return [msgpack.packb(header), *frames]


def _fields(word: Word) -> dict[str, Any]:
    return {field.name: getattr(word, field.name) for field in dataclasses.fields(word)}


def decode(frames: Sequence[Any]) -> tuple[Word, list[np.ndarray]]:
    """A word and its arrays, read-only, on the frames' own memory.

    Raises:
        ProtocolError: it is none.
    """
    try:
        header = _header(frames)
        kind = _KINDS[header.pop("word")]
        forms = header.pop("arrays")
        if header.pop("v") != VERSION or len(forms) != len(frames) - 1:
            raise ValueError("of another version, or with frames missing")
        for field in dataclasses.fields(kind):
            if type(header[field.name]) is not _TYPES[str(field.type)]:
                raise ValueError(f"{field.name} is {type(header[field.name]).__name__}")
        word = kind(**header)
        arrays = [
            _array(dtype, shape, frame)
            for (dtype, shape), frame in zip(forms, frames[1:], strict=True)
        ]
    except (ValueError, TypeError, KeyError, IndexError, msgpack.UnpackException) as error:
        raise ProtocolError(f"a word of another replica can't be understood: {error}") from None
    return word, arrays


def _header(frames: Sequence[Any]) -> dict[str, Any]:
    first = memoryview(frames[0])
    if first.nbytes > _MAX_HEADER_BYTES:
        raise ValueError(f"its header has {first.nbytes} bytes")
    header = msgpack.unpackb(first, max_ext_len=0, strict_map_key=True)
    if not isinstance(header, dict):
        raise ValueError("its header is no map")
    return header


def _array(dtype: str, shape: list[int], frame: Any) -> np.ndarray:
    found = np.dtype(dtype)
    if found.kind not in "fiub" or found.fields or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"an array of {dtype} {shape}")
    flat = np.frombuffer(frame, np.uint8)
    num_values = 1
    for n in shape:
        num_values *= n
    if flat.nbytes != num_values * found.itemsize:
        raise ValueError(f"an array of {flat.nbytes} bytes for {dtype} {shape}")
    return flat.view(found).reshape(shape)
