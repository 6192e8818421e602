"""The run's index: what the preparation found, in one safetensors file that is read by mapping it.

Both workers read this file and nothing else of the metadata. It holds no code and no absolute
path, and it is checked against its own fingerprint whenever it is loaded.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shared.errors import DataError
from shared.whole_file import whole_file

_FORMAT, FORMAT_VERSION = "tandem-index", 1
TRAIN, VALIDATION = 0, 1
TRAIN_ROOT, VAL_ROOT = 0, 1

_HEADER_LIMIT_BYTES = 1 << 20
_HASH_PIECE_BYTES = 1 << 24
_DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16,
    "U32": np.uint32, "I32": np.int32, "I64": np.int64, "F32": np.float32, "F64": np.float64,
}  # fmt: skip
# The engine's own columns of one number per row; all others are the task's.
_NUMBERS = {
    "root": np.uint8,
    "line": np.int32,
    "split": np.uint8,
    "file_size": np.int64,
    "file_mtime_ns": np.int64,
}
_STRINGS = ("ids", "paths")
_NOT_IN_FINGERPRINT = ("file_size", "file_mtime_ns", "line")
_OWN_FACTS = ("left_out", "preparation", "fingerprint")
DTYPES = frozenset(np.dtype(dtype) for dtype in _DTYPES.values())  # of columns and tables
# What a task can't call a column, a table or a fact.
ENGINES_NAMES = frozenset(
    {*_NUMBERS, *_STRINGS, *_OWN_FACTS, "columns", "tables", "facts", "save", "load"}
)


def root_folders(train_data: str, val_data: str | None) -> tuple[Path, Path]:
    """The folders that TRAIN_ROOT and VAL_ROOT stand for; either may be given as a metadata file."""
    train, val = (
        path.parent if path.is_file() else path
        for path in (Path(train_data), Path(val_data or train_data))
    )
    return train, val


@dataclasses.dataclass(frozen=True)
class StringColumn:
    """One string per row: all of them as one utf-8 blob, uint8, and int64 offsets (rows + 1,)."""

    blob: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, strings: Iterable[str]) -> StringColumn:
        encoded = [string.encode("utf-8") for string in strings]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        blob = np.frombuffer(b"".join(encoded), np.uint8)
        return cls(blob, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> str:
        row = range(len(self))[row]
        return self.blob[self.offsets[row] : self.offsets[row + 1]].tobytes().decode("utf-8")

    def to_list(self) -> list[str]:
        blob, offsets = self.blob.tobytes(), self.offsets.tolist()
        return [blob[a:b].decode("utf-8") for a, b in itertools.pairwise(offsets)]


@dataclasses.dataclass(frozen=True)
class RaggedColumn:
    """One array per row: all of them end to end, and int64 offsets (rows + 1,)."""

    values: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, arrays: Sequence[np.ndarray]) -> RaggedColumn:
        lengths = np.fromiter(map(len, arrays), np.int64, len(arrays))
        values = np.concatenate([np.asarray(array).reshape(-1) for array in arrays])
        return cls(values, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        row = range(len(self))[row]
        return self.values[self.offsets[row] : self.offsets[row + 1]]


Column = np.ndarray | StringColumn | RaggedColumn


@dataclasses.dataclass(frozen=True)
class Index:
    """Every usable example, one row each, and what the corpus says about all of them.

    The engine's own columns: `ids`, `paths` relative to the folder that `root` names, `line`,
    `split`, `file_size` and `file_mtime_ns`. The task's columns, tables and facts can be had as
    attributes too.
    """

    columns: dict[str, Column]
    tables: dict[str, np.ndarray]  # of two dimensions or more
    facts: dict[str, Any]
    left_out: list[dict]
    preparation: dict[str, Any] = dataclasses.field(
        default_factory=dict
    )  # what was done, for people
    fingerprint: str = ""

    def __getattr__(self, name: str) -> Any:
        for part in ("columns", "tables", "facts"):
            held = self.__dict__.get(part, {})
            if name in held:
                return held[name]
        raise AttributeError(f"the index has no {name!r}")

    def __len__(self) -> int:
        return len(self.columns["line"])

    def with_fingerprint(self) -> Index:
        """The same index, its fingerprint computed from its content."""
        return dataclasses.replace(self, fingerprint=_fingerprint(self))

    def save(self, path: str | os.PathLike) -> None:
        """Write the index beside `path` and rename it there, so that no one sees half of it."""
        from safetensors.numpy import save

        index = self if self.fingerprint else self.with_fingerprint()
        facts = {**index.facts, **{name: getattr(index, name) for name in _OWN_FACTS}}
        arrays = _arrays(index) | {
            "facts": np.frombuffer(json.dumps(facts, ensure_ascii=False).encode(), np.uint8)
        }
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        metadata = {"format": _FORMAT, "version": str(FORMAT_VERSION)}
        content = _canonical(save(arrays, metadata))
        with whole_file(path) as file:
            file.write(content)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Index:
        """Map the index at `path` and check everything in it.

        Raises:
            DataError: the file is not there, is not an index, or is damaged.
        """
        again = "start the run once more: the data is then looked at again."
        remedy = f"Remove that file and {again}"
        try:
            index = _build(_read_arrays(Path(path)))
        except FileNotFoundError:
            raise DataError(f"{path}: there is no index here. {again.capitalize()}") from None
        except OSError as error:
            raise DataError(f"{path}: can't be read ({error.strerror}). {remedy}") from None
        except _Damage as damage:
            raise DataError(f"{path}: is not a usable index ({damage}). {remedy}") from None
        return index


def _canonical(content: bytes) -> bytes:
    """A safetensors file whose header does not hang on chance: the library hashes its metadata."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode().ljust(size)
    return b"".join((content[:8], text, content[8 + size :])) if len(text) == size else content


class _Damage(Exception):
    """What is wrong with an index file, as the inside of a sentence."""


def _arrays(index: Index) -> dict[str, np.ndarray]:
    arrays = dict(index.tables)
    for name, column in index.columns.items():
        if isinstance(column, StringColumn):
            arrays[f"{name}.blob"], arrays[f"{name}.offsets"] = column.blob, column.offsets
        elif isinstance(column, RaggedColumn):
            arrays[f"{name}.values"], arrays[f"{name}.offsets"] = column.values, column.offsets
        else:
            arrays[name] = column
    return arrays


def _fingerprint(index: Index) -> str:
    """SHA-256 of what decides the batches: the same on every host with the same data."""
    digest = hashlib.sha256(b"tandem-index-%d" % FORMAT_VERSION)
    for name, array in sorted(_arrays(index).items()):
        if name in _NOT_IN_FINGERPRINT:
            continue
        array = np.ascontiguousarray(array)
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        raw = array.reshape(-1).view(np.uint8)
        for at in range(0, len(raw), _HASH_PIECE_BYTES):
            digest.update(raw[at : at + _HASH_PIECE_BYTES].data)
    digest.update(json.dumps(index.facts, sort_keys=True).encode())
    return digest.hexdigest()


def numbers_of(index: Index, name: str) -> np.ndarray:
    """A column of one number per row.

    Raises:
        TypeError: it is one of strings or of arrays.
    """
    column = index.columns[name]
    if not isinstance(column, np.ndarray):
        raise TypeError(f"column {name} is a {type(column).__name__}; expected numbers")
    return column


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Map a safetensors file; each array is a read-only view of it."""
    if not path.is_file():
        raise FileNotFoundError(path)
    size = path.stat().st_size
    if size < 16:
        raise _Damage(f"it holds {size} bytes")
    data = np.memmap(path, np.uint8, "r")
    header_bytes = int.from_bytes(data[:8].tobytes(), "little")
    if header_bytes > min(_HEADER_LIMIT_BYTES, size - 8):
        raise _Damage("its header is cut short or was never one")
    try:
        header = json.loads(data[8 : 8 + header_bytes].tobytes())
        metadata = header.pop("__metadata__")
        if metadata["format"] != _FORMAT:
            raise _Damage("it is another kind of file")
        if metadata["version"] != str(FORMAT_VERSION):
            raise _Damage(
                f"its format is version {metadata['version']}, this program reads {FORMAT_VERSION}"
            )
        body = data[8 + header_bytes :]
        return {name: _view(body, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _Damage("its header is damaged") from None


def _view(body: np.ndarray, entry: dict) -> np.ndarray:
    dtype, (begin, end) = np.dtype(_DTYPES[entry["dtype"]]), entry["data_offsets"]
    shape = tuple(int(n) for n in entry["shape"])
    count = 1
    for n in shape:
        count *= n
    if min(shape, default=0) < 0 or not 0 <= begin <= end <= len(body):
        raise _Damage("it is cut short")
    if end - begin != count * dtype.itemsize:
        raise _Damage("its header is damaged")
    return np.asarray(body[begin:end]).view(dtype).reshape(shape)


def _build(arrays: dict[str, np.ndarray]) -> Index:
    """Put an index together from the arrays of a file, trusting none of them."""
    try:
        facts = json.loads(arrays.pop("facts").tobytes())
        own = {name: facts.pop(name) for name in _OWN_FACTS}
        columns: dict[str, Column] = {}
        tables: dict[str, np.ndarray] = {}
        for name, array in arrays.items():
            column, _, part = name.rpartition(".")
            if part == "blob":
                columns[column] = StringColumn(array, arrays[f"{column}.offsets"])
            elif part == "values":
                columns[column] = RaggedColumn(array, arrays[f"{column}.offsets"])
            elif part != "offsets":
                (columns if array.ndim == 1 else tables)[name] = array
        index = Index(columns, tables, facts, **own)
        _check(index)
        if _fingerprint(index) != index.fingerprint:
            raise _Damage("its content does not match its fingerprint")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _Damage("a part of it is missing or damaged") from None
    return index


def _check(index: Index) -> None:
    rows = len(index.columns["line"])
    for name, dtype in _NUMBERS.items():
        if numbers_of(index, name).dtype != dtype:
            raise _Damage(f"column {name} does not fit the others")
    for name in _STRINGS:
        if not isinstance(index.columns[name], StringColumn):
            raise _Damage(f"column {name} does not fit the others")
    for name, column in index.columns.items():
        if isinstance(column, np.ndarray):
            if column.shape != (rows,):
                raise _Damage(f"column {name} does not fit the others")
        elif isinstance(column, StringColumn):
            _check_offsets(name, column.blob, column.offsets, rows)
            if column.blob.dtype != np.uint8:
                raise _Damage(f"column {name} does not fit the others")
        else:
            _check_offsets(name, column.values, column.offsets, rows)
    for name in ("root", "split"):
        values = numbers_of(index, name)
        if len(values) and (values.min() < 0 or values.max() > 1):
            raise _Damage(f"column {name} holds an impossible number")


def _check_offsets(name: str, values: np.ndarray, offsets: np.ndarray, rows: int) -> None:
    fits = (
        values.ndim == 1
        and offsets.dtype == np.int64
        and offsets.shape == (rows + 1,)
        and offsets[0] == 0
        and offsets[-1] == len(values)
        and bool((offsets[1:] >= offsets[:-1]).all())
    )
    if not fits:
        raise _Damage(f"column {name} does not fit the others")
