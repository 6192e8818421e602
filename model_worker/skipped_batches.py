"""Batches that broke the training, written down before a roll-back so that a replay skips them."""

from __future__ import annotations

import json
from pathlib import Path

from model_worker.run_logs import JsonLines, cut_back


class SkippedBatches:
    """skipped.jsonl: one object {"first", "last"} per stretch of the stream, both included."""

    def __init__(self, path: Path):
        self._path = path
        self._stretches: list[tuple[int, int]] = []
        if path.exists():
            cut_back(path, lambda record: True)
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                self._stretches.append((int(record["first"]), int(record["last"])))

    def contains(self, batch: int) -> bool:
        return any(first <= batch <= last for first, last in self._stretches)

    def add(self, first: int, last: int) -> None:
        """Write a stretch down, durably."""
        lines = JsonLines(self._path)
        lines.write({"first": first, "last": last}, durable=True)
        lines.close()
        self._stretches.append((first, last))
