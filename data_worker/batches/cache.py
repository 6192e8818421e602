"""Finished features kept for later epochs: in memory or on disk, bounded, never stale.

An entry is what a task's `features` made of one example: an array, or a dictionary of arrays.
Nothing that is in use is evicted: under a new shuffle each epoch, what came first is as good as
anything, and an eviction would only churn. On disk, features of other settings give way.

`at_hand` never waits and may be called by a thread that must not; `get` may read a file.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import safetensors.numpy

_MAGIC = b"tandem-features-2"
_HEADER_BYTES = len(_MAGIC) + 4  # and a checksum
_KINDS = "biuf"  # of dtypes that a file can hold, too
_ALONE = ""  # name of the only array of features that have no names
_ABANDONED_AFTER_S = 3600.0  # a file that is being written takes milliseconds

log = logging.getLogger(__name__)


class FeatureCache(Protocol):
    """Keeps features by row of the index."""

    @property
    def num_entries(self) -> int:
        """Examples whose features it holds."""

    def at_hand(self, row: int) -> Any | None:
        """The features of a row, if they can be had without waiting."""

    def get(self, row: int) -> Any | None:
        """The features of a row, from a file if need be."""

    def put(self, row: int, features: Any) -> None:
        """Keep the features of a row, if there is room."""


def as_arrays(features: Any) -> Any:
    """What a task made of one example, as it can be kept: an array, or arrays by name.

    Raises:
        TypeError: it is neither; says what it is.
    """
    named = features if isinstance(features, dict) else {_ALONE: features}
    arrays = {}
    for name, value in named.items():
        array = None if isinstance(value, (list, tuple)) else np.asarray(value, order="C")
        if not isinstance(name, str) or array is None or array.dtype.kind not in _KINDS:
            what = type(features).__name__
            if named is features:
                what = f"a dictionary with {type(value).__name__} under {name!r}"
            raise TypeError(f"the features of an example are {what}")
        arrays[name] = array
    return _as_they_were(arrays)


def _by_name(features: Any) -> dict[str, np.ndarray]:
    return features if isinstance(features, dict) else {_ALONE: features}


def _as_they_were(arrays: dict[str, np.ndarray]) -> Any:
    return arrays[_ALONE] if arrays.keys() == {_ALONE} else arrays


class NoCache:
    """`--cache off`."""

    num_entries = 0

    def at_hand(self, row: int) -> Any | None:
        return None

    def get(self, row: int) -> Any | None:
        return None

    def put(self, row: int, features: Any) -> None:
        return None


class MemoryCache:
    """Features of this process's examples, by row of the index."""

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes
        self._held: dict[int, Any] = {}
        self._num_bytes = 0
        self._lock = threading.Lock()

    @property
    def num_entries(self) -> int:
        """Examples whose features it holds."""
        return len(self._held)

    def at_hand(self, row: int) -> Any | None:
        return self._held.get(row)

    get = at_hand

    def put(self, row: int, features: Any) -> None:
        arrays = _by_name(features)
        num_bytes = sum(array.nbytes for array in arrays.values())
        with self._lock:
            if row not in self._held and self._num_bytes + num_bytes <= self._max_bytes:
                # A view would keep the whole batch that it is a part of.
                own = {n: a if a.base is None else a.copy() for n, a in arrays.items()}
                self._held[row] = _as_they_were(own)
                self._num_bytes += num_bytes


class DiskCache:
    """One small file per example, shared by all data processes and by later runs.

    A file's name is a hash of everything that decides its content, so a changed file or
    setting can't meet an old entry; a checksum keeps a damaged one from being used.
    """

    def __init__(
        self, directory: Path, max_bytes: int, key_of: Callable[[int], str], num_writers: int = 1
    ):
        """`num_writers` processes fill the directory together up to `max_bytes`."""
        self._directory = directory
        self._key_of = key_of
        directory.mkdir(parents=True, exist_ok=True)
        os.utime(directory)  # it is in use
        self._num_bytes = _bytes_in(directory)
        self._lock = threading.Lock()  # of this number: several readers can meet damaged entries
        self._found: set[int] = set()  # rows
        # What is free now is shared out: none of them sees what the others write.
        free_bytes = max(0, max_bytes - self._num_bytes)
        self._max_bytes = min(max_bytes, self._num_bytes + free_bytes // num_writers)
        self._full = False

    @property
    def num_entries(self) -> int:
        """Examples whose features were found in it or put into it by this process."""
        return len(self._found)

    def _path(self, row: int) -> Path:
        name = hashlib.sha256(self._key_of(row).encode()).hexdigest()
        return self._directory / f"{name}.features"

    def at_hand(self, row: int) -> Any | None:
        return None

    def get(self, row: int) -> Any | None:
        path = self._path(row)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        header, body = content[:_HEADER_BYTES], content[_HEADER_BYTES:]
        if header != _header_of(body):
            self._forget(path, len(content))
            return None
        self._found.add(row)
        return _as_they_were(safetensors.numpy.load(body))

    def _forget(self, path: Path, num_bytes: int) -> None:
        """Make room for a good entry in the place of a damaged one."""
        try:
            path.unlink()
        except OSError:
            return
        with self._lock:
            self._num_bytes -= num_bytes

    def put(self, row: int, features: Any) -> None:
        if self._full:
            return
        body = safetensors.numpy.save(_by_name(features))
        if self._num_bytes + _HEADER_BYTES + len(body) > self._max_bytes:
            self._is_full("it has reached cache_megabytes")
            return
        path = self._path(row)
        if path.exists():
            return
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        header = _header_of(body)
        try:
            temporary.write_bytes(header + body)
            os.replace(temporary, path)
        except OSError as error:
            self._is_full(error.strerror or str(error))  # it ends the caching, not the training
            temporary.unlink(missing_ok=True)
            return
        with self._lock:
            self._num_bytes += len(header) + len(body)
        self._found.add(row)

    def _is_full(self, why: str) -> None:
        self._full = True
        log.info("the feature cache %s takes no more: %s", self._directory, why)


def _header_of(body: bytes) -> bytes:
    return _MAGIC + zlib.crc32(body).to_bytes(4, "little")


def make_room(directory: Path, max_bytes: int, needed_bytes: int) -> None:
    """Remove caches of other settings beside `directory`, the longest unused first.

    Of `max_bytes` together, `needed_bytes` are for `directory`. A run that uses one of the others
    makes its features anew.
    """
    others = []
    for other in directory.parent.glob("*/") if directory.parent.is_dir() else ():
        if other != directory:
            try:
                others.append((other.stat().st_mtime, _bytes_in(other), other))
            except OSError:
                continue  # another process removes it too
    held = sum(num_bytes for _, num_bytes, _ in others)
    for _, num_bytes, other in sorted(others):
        if held <= max_bytes - needed_bytes:
            return
        log.info("removed the features of other settings in %s", other)
        shutil.rmtree(other, ignore_errors=True)
        held -= num_bytes


def _bytes_in(directory: Path) -> int:
    """Of the entries; what a killed process left half-written is removed."""
    held = 0
    for entry in os.scandir(directory):
        try:
            found = entry.stat()
            if entry.name.endswith(".tmp") and time.time() - found.st_mtime > _ABANDONED_AFTER_S:
                os.unlink(entry.path)
            else:
                held += found.st_size
        except OSError:
            continue  # another data process has just renamed or removed it
    return held
