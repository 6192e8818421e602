"""The run's line-by-line files: metrics, audit, quarantine. Each line is one JSON object."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.index import Index


class JsonLines:
    """Appends objects to a file; a reader never sees half a line but the last."""

    def __init__(self, path: Path):
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def write(self, record: dict[str, Any], durable: bool = False) -> None:
        self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
        if durable:
            self.flush()
            os.fsync(self._file.fileno())

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def cut_back(path: Path, keep: Callable[[dict], bool]) -> None:
    """Drop from the first record on that `keep` refuses, or that was not written whole."""
    if not path.exists():
        return
    kept = 0
    with open(path, "rb") as file:
        for line in file:
            try:
                record = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                record = None
            if not isinstance(record, dict) or not keep(record):
                break
            kept += len(line)
    os.truncate(path, kept)


class Quarantine:
    """quarantine.jsonl: what preparation left out, then what failed while training."""

    def __init__(self, path: Path, index: Index):
        self._path = path
        self._index = index
        _cut_half_line(path)
        self._lines = JsonLines(path)

    def add(self, row: int, from_batch: int, reason: str) -> None:
        """Write down, durably, that a row is left out from a batch of the stream on."""
        index = self._index
        self._lines.write(
            {
                "id": index.ids[row],
                "line": int(index.line[row]),
                "path": index.paths[row],
                "kind": "bad",
                "reason": reason,
                "row": row,
                "from_batch": from_batch,
            },
            durable=True,
        )

    def exclusions(self) -> list[list[int]]:
        """[row, from_batch] of everything that failed while training, in order."""
        found = []
        with open(self._path, encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                if "from_batch" in record:
                    found.append([record["row"], record["from_batch"]])
        return found


def _cut_half_line(path: Path) -> None:
    cut_back(path, lambda record: True)
