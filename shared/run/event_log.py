"""events.jsonl: when a run was started, what had to be replaced, and how it ended.

The report is made from it; launcher.log tells the same, and more, to people.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from shared.run.typed_lines import decoder, encode


@dataclass(frozen=True)
class Started:
    """Training was begun, or gone on with."""

    time_s: float  # time.time()


@dataclass(frozen=True)
class Restarted:
    """A worker died and was replaced."""

    time_s: float
    worker: str
    cause: str
    by_spare: bool


@dataclass(frozen=True)
class Ended:
    """What was started has come to an end."""

    time_s: float
    exit_code: int
    cause: str


RunEvent = Started | Restarted | Ended
_decode = decoder(RunEvent.__args__)


class EventLog:
    """Appends events; a disk that takes none is no reason to end a run."""

    def __init__(self, path: Path):
        self._path = path
        self._descriptor: int | None = None

    def add(self, event: RunEvent) -> None:
        try:
            if self._descriptor is None:
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o666)
            self._end_last_line(self._descriptor)
            os.write(self._descriptor, encode(event))
        except OSError:
            pass

    def _end_last_line(self, descriptor: int) -> None:
        """What a death or a full disk cut off must not spoil what comes after it."""
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            os.write(descriptor, b"\n")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def read_events(path: Path) -> list[RunEvent]:
    """The events of a run in order, without what is damaged; none where the file is not there."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return []
    return [event for event in map(_decode, lines) if event is not None]
