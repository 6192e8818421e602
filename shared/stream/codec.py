"""Messages to frames and back. Everything decoded here comes from outside and is not trusted.

One message is a small msgpack header. The raw bytes of all arrays, where it has any, follow in a
second frame, or the header says where they lie in memory that both sides share. No pickle, no object
arrays, no msgpack extensions; every count, length and type is checked before it is used.
"""

from __future__ import annotations

import dataclasses
import functools
import reprlib
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import numpy as np

from shared.errors import ProtocolError, VersionError
from shared.stream import messages
from shared.stream.array_block import ArrayBlock, offsets_of
from shared.stream.messages import PROTOCOL_VERSION, Envelope

MAX_HEADER_BYTES = 256 * 1024
MAX_DESCRIPTION_BYTES = 8 * 1024
MAX_FRAMES = 2
MAX_ARRAYS = 32
MAX_DIMENSIONS = 4
MAX_BLOCK_BYTES = 1 << 31
MAX_TEXT = 4096
MAX_LIST = 20_000
MAX_NAME = 64
# Only little-endian numbers of fixed size: nothing here can hold a reference or a sub-array.
DTYPES = {name: np.dtype(name) for name in ("<f4", "<f2", "<i4", "<i8", "<i2", "|u1")}

_TAGS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        messages.Hello,
        messages.BatchReady,
        messages.CannotRead,
        messages.Goodbye,
        messages.Welcome,
        messages.Refused,
        messages.Introduce,
        messages.Exclude,
        messages.MakeBatch,
        messages.StopProducing,
    )
}
_HEADER_KEYS = {"tag", "v", "run", "session", "seq", "fields", "arrays", "begin"}
_MAX_INTEGER = 2**53
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def encode(
    envelope: Envelope, begin_of: Callable[[np.ndarray], int] = lambda block: 0
) -> list[bytes | memoryview]:
    """The frames of a message: a header, and the arrays' block where there are any.

    The block of an `ArrayBlock` is handed over as it lies in memory; other arrays are copied. Where
    `begin_of` finds a block in shared memory (not at 0), its begin is told and the block not sent.
    """
    message = envelope.message
    arrays = getattr(message, "arrays", None)
    if arrays and not isinstance(arrays, ArrayBlock):
        arrays = ArrayBlock.copied(arrays)
    begin = begin_of(arrays.block) if arrays else 0
    header = {
        "tag": type(message).__name__,
        "v": PROTOCOL_VERSION,
        "run": envelope.run,
        "session": envelope.session,
        "seq": envelope.sequence,
        "fields": {name: getattr(message, name) for name in _FIELDS[type(message)]},
        "arrays": _packed_description(arrays) if arrays else b"",
        "begin": begin,
    }
    packed = msgpack.packb(header, use_bin_type=True)
    return [packed] if begin or not arrays else [packed, arrays.block.data]


def _packed_description(arrays: dict[str, np.ndarray]) -> bytes:
    return msgpack.packb([[name, a.dtype.str, a.shape] for name, a in arrays.items()])


def decode(
    frames: Sequence[Any],
    block_at: Callable[[int, int], np.ndarray] | None = None,
    session: str | None = None,
) -> Envelope:
    """The message in the frames; its arrays are read-only views of them.

    `block_at(begin, num_bytes)` gives a block in the sender's memory. Without it, as for a sender
    that is not known (any more), such a message comes without its arrays; so does one of another
    session than this, which may speak of memory that the sender has left behind.

    Raises:
        ProtocolError: anything about the frames is not exactly as it should be.
    """
    if not 1 <= len(frames) <= MAX_FRAMES:
        raise ProtocolError(f"a message of {len(frames)} frames; expected 1 to {MAX_FRAMES}.")
    header = _unpack_header(frames[0])
    if header["v"] != PROTOCOL_VERSION:
        raise VersionError(
            f"protocol version {_shown(header['v'])}; this side speaks {PROTOCOL_VERSION}. "
            "Install the same version of Tandem on both sides."
        )
    kind = _TAGS.get(header["tag"]) if isinstance(header["tag"], str) else None
    if kind is None:
        raise ProtocolError(f"unknown message {_shown(header['tag'])}.")
    fields = _checked_fields(kind, header["fields"])
    if session is not None and header["session"] != session:
        block_at = None
    arrays = _arrays(header["arrays"], _integer(header["begin"], "begin"), frames[1:], block_at)
    if kind is messages.BatchReady:
        fields["arrays"] = arrays
    elif arrays:
        raise ProtocolError(f"{kind.__name__} came with arrays.")
    return Envelope(
        run=_text(header["run"], "run"),
        session=_text(header["session"], "session"),
        sequence=_integer(header["seq"], "seq"),
        message=kind(**fields),
    )


def _unpack_header(frame: Any) -> dict:
    if len(frame) > MAX_HEADER_BYTES:
        raise ProtocolError(f"a header of {len(frame)} bytes; at most {MAX_HEADER_BYTES}.")
    header = _unpack(frame)
    if not isinstance(header, dict) or header.keys() != _HEADER_KEYS:
        raise ProtocolError("a header without exactly the keys of the protocol.")
    return header


def _unpack(packed: Any) -> Any:
    try:
        return msgpack.unpackb(
            packed,
            raw=False,
            strict_map_key=True,
            max_str_len=MAX_TEXT,
            max_bin_len=MAX_DESCRIPTION_BYTES,
            max_array_len=MAX_LIST,
            max_map_len=64,
            max_ext_len=0,
        )
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise ProtocolError(f"a header that is not msgpack ({_shown(str(error))}).") from None


def _shown(value: Any) -> str:
    # Not repr(): a header may nest deeper than that can go.
    text = _SHORT.repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ProtocolError(f"{name} is {_shown(value)}; expected text.")
    return value


def _integer(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_INTEGER:
        raise ProtocolError(f"{name} is {_shown(value)}; expected a whole number.")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ProtocolError(f"{name} is {_shown(value)}; expected a number.")
    if not abs(value) < 1e15:  # also refuses NaN and infinity
        raise ProtocolError(f"{name} is {_shown(value)}; expected a finite number.")
    return float(value)


def _words(value: Any, name: str) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > 32:
        raise ProtocolError(f"{name} is not a short dictionary.")
    for key, word in value.items():
        if not isinstance(key, str) or not isinstance(word, str) or len(key) + len(word) > 512:
            raise ProtocolError(f"{name} holds what is not a short text.")
    return value


def _timings(value: Any, name: str) -> dict[str, float]:
    if not isinstance(value, dict) or len(value) > 32:
        raise ProtocolError(f"{name} is {_shown(value)}; expected a few named numbers.")
    return {_text(key, name): _number(item, name) for key, item in value.items()}


def _exclusions(value: Any, name: str) -> list[list[int]]:
    if not isinstance(value, list):
        raise ProtocolError(f"{name} is {_shown(value)}; expected lists of whole numbers.")
    for entry in value:
        if not isinstance(entry, list) or len(entry) not in (2, 3):
            raise ProtocolError(f"{name} holds {_shown(entry)}; expected two numbers or three.")
        for number in entry:
            _integer(number, name)
    return value


_CHECKS = {
    "str": _text,
    "int": _integer,
    "float": _number,
    "dict[str, str]": _words,
    "dict[str, float]": _timings,
    "list[list[int]]": _exclusions,
}


# kind of message -> name of each field but `arrays` -> how it is checked
_FIELDS = {
    kind: {
        field.name: _CHECKS[str(field.type)]
        for field in dataclasses.fields(kind)
        if field.name != "arrays"
    }
    for kind in _TAGS.values()
}


def _checked_fields(kind: type, found: Any) -> dict[str, Any]:
    checks = _FIELDS[kind]
    if not isinstance(found, dict) or found.keys() != checks.keys():
        raise ProtocolError(f"{kind.__name__} without exactly its fields.")
    return {name: check(found[name], name) for name, check in checks.items()}


@dataclasses.dataclass(frozen=True)
class _Described:
    """One array as the header describes it."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    nbytes: int


# Thousands of batches are described in the same few ways: each is checked once.
@functools.lru_cache(maxsize=64)
def _block_described(packed: bytes) -> tuple[tuple[tuple[_Described, int], ...], int]:
    """The arrays that a header describes, where each begins in the block, the block's bytes."""
    described = _unpack(packed)
    if not isinstance(described, list) or not 0 < len(described) <= MAX_ARRAYS:
        raise ProtocolError(f"arrays described by {_shown(described)}; expected a short list.")
    arrays = [_described(item) for item in described]
    if len({array.name for array in arrays}) != len(arrays):
        raise ProtocolError("two arrays of one name.")
    offsets, length = offsets_of(array.nbytes for array in arrays)
    return tuple(zip(arrays, offsets, strict=True)), length


def _described(item: Any) -> _Described:
    if not isinstance(item, list) or len(item) != 3:
        raise ProtocolError("an array without name, dtype and shape.")
    name, dtype_name, shape = item
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise ProtocolError(f"an array named {_shown(name)}.")
    dtype = DTYPES.get(dtype_name) if isinstance(dtype_name, str) else None
    if dtype is None:
        raise ProtocolError(f"array {name} has dtype {_shown(dtype_name)}.")
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
        raise ProtocolError(f"array {name} has shape {_shown(shape)}.")
    # Python integers: numpy's product of large dimensions wraps around to small numbers. A zero
    # among them must not hide the others, which numpy would refuse in its own way.
    nbytes = extent = dtype.itemsize
    for size in shape:
        nbytes *= _integer(size, f"a dimension of {name}")
        extent *= size or 1
    if extent > MAX_BLOCK_BYTES:
        raise ProtocolError(f"array {name} has shape {_shown(shape)}, which is too large.")
    return _Described(name, dtype, tuple(shape), nbytes)


def _arrays(
    packed: Any,
    begin: int,
    frames: Sequence[Any],
    block_at: Callable[[int, int], np.ndarray] | None,
) -> dict[str, np.ndarray]:
    if not isinstance(packed, bytes):
        raise ProtocolError(f"arrays described by {_shown(packed)}; expected bytes.")
    described, length = _block_described(packed) if packed else ((), 0)
    expected = int(bool(described) and not begin)
    if len(frames) != expected:
        raise ProtocolError(f"{len(frames)} frames of arrays; expected {expected}.")
    arrays: dict[str, np.ndarray] = {}
    if not described:
        return arrays
    if not begin:
        block = frames[0]
    elif block_at is not None:
        block = block_at(begin, length)
    else:
        return arrays
    if len(block) != length:
        raise ProtocolError(f"arrays of {len(block)} bytes; the header describes {length}.")
    for each, offset in described:
        array = np.ndarray(each.shape, each.dtype, block, offset)
        array.setflags(write=False)
        arrays[each.name] = array
    return arrays
