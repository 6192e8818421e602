"""Finished features kept for later epochs: in memory or on disk, bounded, never stale.

An entry is one float32 array (frames, 82): log mel, energy, pitch. Nothing is ever evicted: under a
new shuffle each epoch, what came first is as good as anything, and an eviction would only churn.
"""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from shared.mel import MEL_BINS

COLUMNS = MEL_BINS + 2
_MAGIC = b"tandem-features-1"
_HEADER_BYTES = len(_MAGIC) + 4 + 4


class NoCache:
    """`--cache off`."""

    def get(self, row: int) -> np.ndarray | None:
        return None

    def put(self, row: int, features: np.ndarray) -> None:
        return None


class MemoryCache:
    """Features of this process's utterances, by row of the index."""

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes
        self._held: dict[int, np.ndarray] = {}
        self._num_bytes = 0
        self._lock = threading.Lock()

    def get(self, row: int) -> np.ndarray | None:
        return self._held.get(row)

    def put(self, row: int, features: np.ndarray) -> None:
        with self._lock:
            if row not in self._held and self._num_bytes + features.nbytes <= self._max_bytes:
                self._held[row] = np.ascontiguousarray(features)
                self._num_bytes += features.nbytes


class DiskCache:
    """One small file per utterance, shared by all data processes and by later runs.

    A file's name is a hash of everything that decides its content, so a changed recording or
    setting can't meet an old entry; a checksum keeps a damaged one from being used.
    """

    def __init__(self, directory: Path, max_bytes: int, key_of: Callable[[int], str]):
        self._directory = directory
        self._max_bytes = max_bytes
        self._key_of = key_of
        directory.mkdir(parents=True, exist_ok=True)
        self._num_bytes = sum(_size_of(entry) for entry in os.scandir(directory))
        self._full = False

    def _path(self, row: int) -> Path:
        name = hashlib.sha256(self._key_of(row).encode()).hexdigest()
        return self._directory / f"{name}.features"

    def get(self, row: int) -> np.ndarray | None:
        path = self._path(row)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        header, body = content[:_HEADER_BYTES], content[_HEADER_BYTES:]
        sum_found = zlib.crc32(body).to_bytes(4, "little")
        frames = int.from_bytes(header[-4:], "little")
        if (
            header[: len(_MAGIC)] != _MAGIC
            or header[len(_MAGIC) : -4] != sum_found
            or len(body) != frames * COLUMNS * 4
        ):
            self._forget(path, len(content))
            return None
        return np.frombuffer(body, dtype="<f4").reshape(frames, COLUMNS)

    def _forget(self, path: Path, num_bytes: int) -> None:
        """Make room for a good entry in the place of a damaged one."""
        try:
            path.unlink()
        except OSError:
            return
        self._num_bytes -= num_bytes

    def put(self, row: int, features: np.ndarray) -> None:
        body = np.ascontiguousarray(features, dtype="<f4").tobytes()
        if self._full or self._num_bytes + _HEADER_BYTES + len(body) > self._max_bytes:
            return
        path = self._path(row)
        if path.exists():
            return
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        header = _MAGIC + zlib.crc32(body).to_bytes(4, "little") + len(features).to_bytes(4, "little")
        try:
            temporary.write_bytes(header + body)
            os.replace(temporary, path)
        except OSError:
            # A full disk ends the caching, not the training.
            self._full = True
            temporary.unlink(missing_ok=True)
            return
        self._num_bytes += len(header) + len(body)


def _size_of(entry: os.DirEntry) -> int:
    try:
        return entry.stat().st_size
    except OSError:
        return 0  # another data process has just renamed or removed it
