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
import secrets
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from shared.errors import DataError

_FORMAT, FORMAT_VERSION = "tandem-index", 1
TRAIN, VALIDATION = 0, 1
TRAIN_ROOT, VAL_ROOT = 0, 1
MEL_BINS, SPECTRUM_BINS = 80, 513

_HEADER_LIMIT_BYTES = 1 << 20
_HASH_PIECE_BYTES = 1 << 24
_DTYPES = {"U8": np.uint8, "I16": np.int16, "I32": np.int32, "I64": np.int64, "F32": np.float32}
# name -> dtype of the columns with one number per row
_NUMBERS = {
    "root": np.uint8,
    "line": np.int32,
    "split": np.uint8,
    "sample_rate": np.int32,
    "start": np.int64,
    "num_samples": np.int64,
    "num_channels": np.int16,
    "num_frames": np.int32,
    "speaker": np.int32,
    "num_symbols": np.int32,
    "file_size": np.int64,
    "file_mtime_ns": np.int64,
}
_NOT_IN_FINGERPRINT = ("file_size", "file_mtime_ns", "line")
_STATISTICS = ("mel_mean", "mel_std", "pitch_mean", "pitch_std", "energy_mean", "energy_std")


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

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        row = range(len(self))[row]
        return self.values[self.offsets[row] : self.offsets[row + 1]]


@dataclasses.dataclass(frozen=True)
class Index:
    """Every usable utterance, one row each, and what the corpus says about all of them.

    Number columns have shape (rows,). `start` and `num_samples` are the stretch without the
    silence at both ends, in the file's own samples; `num_frames` is its mel length at 22,050 Hz.
    `symbols` are int16 numbers of `symbol_table`, whose entry 0 is padding.
    """

    ids: StringColumn
    paths: StringColumn  # relative to the folder that `root` names
    root: np.ndarray
    line: np.ndarray
    split: np.ndarray
    sample_rate: np.ndarray
    start: np.ndarray
    num_samples: np.ndarray
    num_channels: np.ndarray
    num_frames: np.ndarray
    speaker: np.ndarray
    symbols: RaggedColumn
    num_symbols: np.ndarray
    file_size: np.ndarray
    file_mtime_ns: np.ndarray
    symbol_table: list[str]
    speakers: list[str]
    mel_basis: np.ndarray  # float32 (80, 513)
    mel_mean: float
    mel_std: float
    pitch_mean: float
    pitch_std: float
    energy_mean: float
    energy_std: float
    text: dict
    left_out: list[dict]
    preparation: dict = dataclasses.field(default_factory=dict)  # what was done: format, verify, …
    fingerprint: str = ""

    def __len__(self) -> int:
        return len(self.line)

    def with_fingerprint(self) -> Index:
        """The same index, its fingerprint computed from its content."""
        return dataclasses.replace(self, fingerprint=_fingerprint(self))

    def save(self, path: str | os.PathLike) -> None:
        """Write the index beside `path` and rename it there, so that no one sees half of it."""
        from safetensors.numpy import save

        index = self if self.fingerprint else self.with_fingerprint()
        facts = {name: getattr(index, name) for name in _FACTS}
        arrays = _arrays(index) | {
            "facts": np.frombuffer(json.dumps(facts, ensure_ascii=False).encode(), np.uint8)
        }
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        path = Path(path)
        beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            with open(beside, "xb") as file:
                file.write(save(arrays, {"format": _FORMAT, "version": str(FORMAT_VERSION)}))
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)

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


_FACTS = (
    "symbol_table",
    "speakers",
    *_STATISTICS,
    "text",
    "left_out",
    "preparation",
    "fingerprint",
)


class _Damage(Exception):
    """What is wrong with an index file, as the inside of a sentence."""


def _arrays(index: Index) -> dict[str, np.ndarray]:
    arrays = {name: getattr(index, name) for name in _NUMBERS}
    arrays["mel_basis"] = index.mel_basis
    for name in ("ids", "paths"):
        arrays[f"{name}.blob"] = getattr(index, name).blob
        arrays[f"{name}.offsets"] = getattr(index, name).offsets
    arrays["symbols.values"] = index.symbols.values
    arrays["symbols.offsets"] = index.symbols.offsets
    return arrays


def _fingerprint(index: Index) -> str:
    """SHA-256 of what decides the batches: the same on every host with the same speech."""
    digest = hashlib.sha256(b"tandem-index-%d" % FORMAT_VERSION)
    for name, array in sorted(_arrays(index).items()):
        if name in _NOT_IN_FINGERPRINT:
            continue
        array = np.ascontiguousarray(array)
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        raw = array.reshape(-1).view(np.uint8)
        for at in range(0, len(raw), _HASH_PIECE_BYTES):
            digest.update(raw[at : at + _HASH_PIECE_BYTES])
    facts = {name: getattr(index, name) for name in ("symbol_table", "speakers", *_STATISTICS)}
    facts["text"] = {name: index.text.get(name) for name in ("frontend", "language")}
    digest.update(json.dumps(facts, sort_keys=True).encode())
    return digest.hexdigest()


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
        index = Index(
            ids=StringColumn(arrays["ids.blob"], arrays["ids.offsets"]),
            paths=StringColumn(arrays["paths.blob"], arrays["paths.offsets"]),
            symbols=RaggedColumn(arrays["symbols.values"], arrays["symbols.offsets"]),
            mel_basis=arrays["mel_basis"],
            **{name: arrays[name] for name in _NUMBERS},
            **{name: facts[name] for name in _FACTS},
        )
        _check(index)
        if _fingerprint(index) != index.fingerprint:
            raise _Damage("its content does not match its fingerprint")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _Damage("a part of it is missing or damaged") from None
    return index


def _check(index: Index) -> None:
    rows = len(index.line)
    for name, dtype in _NUMBERS.items():
        column = getattr(index, name)
        if column.shape != (rows,) or column.dtype != dtype:
            raise _Damage(f"column {name} does not fit the others")
    _check_offsets("ids", index.ids.blob, index.ids.offsets, rows, np.uint8)
    _check_offsets("paths", index.paths.blob, index.paths.offsets, rows, np.uint8)
    symbols = index.symbols
    _check_offsets("symbols", symbols.values, symbols.offsets, rows, np.int16)
    if not np.array_equal(np.diff(symbols.offsets), index.num_symbols):
        raise _Damage("column num_symbols does not fit the symbols")
    if index.mel_basis.shape != (MEL_BINS, SPECTRUM_BINS) or index.mel_basis.dtype != np.float32:
        raise _Damage("its mel basis has another shape")
    statistics = [float(getattr(index, name)) for name in _STATISTICS]
    if not np.isfinite(statistics).all() or not np.isfinite(index.mel_basis).all():
        raise _Damage("a statistic of it is not finite")
    limits = {
        "root": (0, 1),
        "split": (0, 1),
        "start": (0, None),
        "num_samples": (1, None),
        "num_channels": (1, None),
        "sample_rate": (1, None),
        "num_frames": (1, None),
        "num_symbols": (1, None),
        "speaker": (0, len(index.speakers) - 1),
    }
    for name, (lowest, highest) in limits.items():
        _check_range(name, getattr(index, name), lowest, highest)
    _check_range("symbols", symbols.values, 1, len(index.symbol_table) - 1)


def _check_offsets(name: str, values: np.ndarray, offsets: np.ndarray, rows: int, dtype) -> None:
    fits = (
        values.dtype == dtype
        and values.ndim == 1
        and offsets.dtype == np.int64
        and offsets.shape == (rows + 1,)
        and offsets[0] == 0
        and offsets[-1] == len(values)
        and bool((offsets[1:] >= offsets[:-1]).all())
    )
    if not fits:
        raise _Damage(f"column {name} does not fit the others")


def _check_range(name: str, values: np.ndarray, lowest: int, highest: int | None) -> None:
    if len(values) and (values.min() < lowest or (highest is not None and values.max() > highest)):
        raise _Damage(f"column {name} holds an impossible number")
