"""Batches that broke the training, written down before a roll-back so that a replay skips them."""

from __future__ import annotations

from pathlib import Path

from shared.run.json_lines import JsonLines, end_last_line, sound_records


class SkippedBatches:
    """skipped.jsonl: one object {"first", "last"} per stretch of the stream, both included."""

    def __init__(self, path: Path):
        self._path = path
        self.stretches: list[tuple[int, int]] = []
        if path.exists():
            end_last_line(path)
            found = sound_records(path, _is_stretch)
            self.stretches = [(record["first"], record["last"]) for record in found]

    def contains(self, batch: int) -> bool:
        return any(first <= batch <= last for first, last in self.stretches)

    def add(self, first: int, last: int) -> None:
        """Write a stretch down, durably."""
        lines = JsonLines(self._path)
        lines.write({"first": first, "last": last}, durable=True)
        lines.close()
        self.stretches.append((first, last))


def _is_stretch(record: dict) -> bool:
    return type(record.get("first")) is int and type(record.get("last")) is int
