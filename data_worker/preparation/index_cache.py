"""Finished indexes of earlier runs, kept so that the second run on the same data starts at once.

An entry is found by the content of the metadata and the settings, and holds only while every
file still has the size and the time that it had.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shared.errors import DataError
from shared.plan.index import Index
from shared.run.user_cache import user_cache
from shared.task import DataSide, LeftOut

ENTRIES_KEPT = 20
# Raise this when the preparation finds something else in the same files.
PREPARATION_VERSION = 3


def cache_folder(fallback: Path) -> Path | None:
    """Where indexes are kept: $TANDEM_CACHE, the user's cache folder, or `fallback`."""
    return user_cache("indexes", fallback)


def key_of(facts: dict) -> str:
    """The name of the entry for these settings and metadata digests."""
    facts = facts | {"version": PREPARATION_VERSION}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:40]


def look_up(folder: Path | None, key: str, roots: Sequence[str], side: DataSide) -> Index | None:
    """The index kept under `key`, unless it is damaged or a file has changed since."""
    path = folder / f"{key}.safetensors" if folder else None
    if path is None or not path.is_file():
        return None
    try:
        index = Index.load(path)
    except DataError:
        return None
    if not _files_unchanged(index, roots, side):
        return None
    try:
        os.utime(path)
    except OSError:
        pass
    return index


def keep(folder: Path | None, key: str, index: Index) -> None:
    """Keep an index under `key`; a full or read-only disk only means that it isn't kept."""
    if folder is None:
        return
    try:
        index.save(folder / f"{key}.safetensors")
        entries = sorted(folder.glob("*.safetensors"), key=lambda path: -path.stat().st_mtime)
        for old in entries[ENTRIES_KEPT:]:
            old.unlink(missing_ok=True)
    except OSError:
        pass


def stamp(root: str, relative: str) -> list[int] | None:
    """Size and time of a file of the data set, or None if there is nothing to be seen of it."""
    if os.path.isabs(relative) or ".." in relative.split("/"):
        return None
    try:
        status = os.stat(os.path.join(root, relative))
    except (OSError, ValueError):
        return None
    return [status.st_size, status.st_mtime_ns]


def _files_unchanged(index: Index, roots: Sequence[str], side: DataSide) -> bool:
    stamps = np.full((len(index), 2), -1, np.int64)
    for row, (path, root) in enumerate(
        zip(index.paths.to_list(), index.root.tolist(), strict=True)
    ):
        try:
            status = os.stat(f"{roots[root]}/{path}")
        except (OSError, ValueError):
            return False
        stamps[row] = status.st_size, status.st_mtime_ns
    if not np.array_equal(stamps[:, 0], index.file_size):
        return False
    if not np.array_equal(stamps[:, 1], index.file_mtime_ns):
        return False
    return not any(_has_changed(entry, roots, side) for entry in index.left_out)


def _has_changed(entry: dict, roots: Sequence[str], side: DataSide) -> bool:
    """Whether the file of an example that was left out is another one now, or has turned up."""
    root = roots[entry.get("root", 0)]
    before = entry.get("stamp")
    if stamp(root, entry["path"]) != before:
        return True
    left_out = LeftOut(**{name: entry[name] for name in LeftOut._fields if name in entry})
    return before is None and side.has_turned_up(left_out, root)
