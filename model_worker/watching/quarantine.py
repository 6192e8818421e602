"""quarantine.jsonl as the model process writes it: examples that failed while training."""

from __future__ import annotations

import sys
from pathlib import Path

from shared.plan.index import Index
from shared.run.json_lines import JsonLines, end_last_line, sound_records


class Quarantine:
    """quarantine.jsonl: what preparation left out, then what failed while training.

    Its lines do not depend on each other: one that is damaged costs itself, not those after it.
    """

    def __init__(self, path: Path, index: Index):
        self._path = path
        self._index = index
        end_last_line(path)
        self._lines = JsonLines(path)

    def add(self, row: int, from_batch: int, reason: str, until_batch: int | None = None) -> None:
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
                **({} if until_batch is None else {"until_batch": until_batch}),
            },
            durable=True,
        )

    def exclusions(self) -> list[list[int]]:
        """[row, from_batch] of everything that failed while training, in order.

        Of what is not left out for ever, [row, from_batch, until_batch].
        """
        names = ("row", "from_batch", "until_batch")
        sound = sound_records(self._path, self._is_sound)
        return [[each[n] for n in names if n in each] for each in sound if "from_batch" in each]

    def _is_sound(self, record: dict) -> bool:
        """Whether what it says of the stream, if anything, can be."""
        if "from_batch" not in record:
            return True
        numbers = record.get("row"), record["from_batch"], record.get("until_batch", sys.maxsize)
        if not all(type(number) is int for number in numbers):
            return False
        row, from_batch, until_batch = map(int, numbers)
        return 0 <= row < len(self._index) and 0 <= from_batch < until_batch
