"""A file of JSON lines that grows while it is read: what is known of it is not read again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.run.json_lines import object_on

_REMEMBERED_BYTES = 256  # before the place where reading goes on, to know the file again
_PIECE_BYTES = 8 << 20


class GrowingLines:
    """The whole lines of a file that are JSON objects, in order."""

    def __init__(
        self,
        path: Path,
        most: int | None = None,
        is_dear: Callable[[dict[str, Any]], bool] = lambda record: False,
    ):
        """`most`: where there are more, every second one is let go, and again; but none that is dear."""
        self._path, self._most, self._is_dear = path, most, is_dear
        self._records: list[dict[str, Any]] = []
        self._begin_again()

    def _begin_again(self) -> None:
        self._offset, self._before = 0, b""
        self._records.clear()
        self._every, self._num_common, self._num_kept = 1, 0, 0

    def read(self) -> list[dict[str, Any]]:
        """All of them by now; none where there is no such file."""
        try:
            with open(self._path, "rb") as file:
                if not self._goes_on(file.fileno()):
                    self._begin_again()  # cut back to a checkpoint, or another run's
                self._read_on(file.fileno())
        except OSError:
            self._begin_again()
        return list(self._records)

    def _goes_on(self, descriptor: int) -> bool:
        """Whether what was read is still what is before the place where it ended."""
        size = len(self._before)
        return os.pread(descriptor, size, self._offset - size) == self._before

    def _read_on(self, descriptor: int) -> None:
        while piece := os.pread(descriptor, _PIECE_BYTES, self._offset):
            whole = piece[: piece.rfind(b"\n") + 1]
            if not whole:
                return
            for record in filter(None, map(object_on, whole.split(b"\n"))):
                self._take(record)
            self._offset += len(whole)
            self._before = (self._before + whole)[-_REMEMBERED_BYTES:]

    def _take(self, record: dict[str, Any]) -> None:
        if self._most is None or self._is_dear(record):
            self._records.append(record)
            return
        self._num_common += 1
        if (self._num_common - 1) % self._every:
            return
        self._records.append(record)
        self._num_kept += 1
        if self._num_kept > self._most:
            self._thin_out()

    def _thin_out(self) -> None:
        kept, position = [], 0
        for record in self._records:
            if self._is_dear(record):
                kept.append(record)
                continue
            if position % 2 == 0:
                kept.append(record)
            position += 1
        self._records = kept
        self._every, self._num_kept = 2 * self._every, (position + 1) // 2
