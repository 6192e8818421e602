"""Files of one JSON object a line: written so that no reader sees half of one, read around damage."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.errors import TandemError

log = logging.getLogger(__name__)

_MAX_WAITING_BYTES = 16 << 20


class JsonLines:
    """Appends objects to a file; a reader never sees half a line but the last.

    What a full disk refuses waits here, and `flush` goes on exactly where it was cut off.
    """

    def __init__(self, path: Path):
        self._path = path
        self._name_is_durable = False  # without it a power cut takes the file, however full
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._waiting = bytearray()

    def write(self, record: dict[str, Any], durable: bool = False) -> None:
        """Take a record, to be written by the next `flush`; at once and on disk if `durable`.

        Raises:
            TandemError: it can't be written durably, or too much waits already.
        """
        self._waiting += json.dumps(record, ensure_ascii=False).encode() + b"\n"
        if not durable and len(self._waiting) < _MAX_WAITING_BYTES:
            return
        try:
            self.flush(durable)
        except OSError as error:
            raise TandemError(
                f"{self._path}: can't be written ({error.strerror}). Free some space on that disk "
                "and start the same command again: the run goes on from its last checkpoint."
            ) from error

    def flush(self, durable: bool = False) -> None:
        """Write what waits, if `durable` so that it outlives the machine.

        Raises OSError; nothing is lost by it.
        """
        while self._waiting:
            del self._waiting[: os.write(self._descriptor, self._waiting)]
        if durable:
            os.fsync(self._descriptor)
            if not self._name_is_durable:
                self._sync_directory()
                self._name_is_durable = True

    def _sync_directory(self) -> None:
        descriptor = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        try:
            self.flush()
        finally:
            os.close(self._descriptor)


def cut_back(path: Path, keep: Callable[[dict], bool]) -> None:
    """Drop from the first record on that `keep` refuses, or that was not written whole."""
    if not path.exists():
        return
    kept = 0
    with open(path, "rb") as file:
        for line in file:
            record = _record_of(line)
            if record is None or not keep(record):
                break
            kept += len(line)
    os.truncate(path, kept)


def records_of(path: Path) -> list[dict]:
    """The objects on the lines of a file, without what is damaged; none where there is no file."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return []
    return [record for record in map(object_on, lines) if record is not None]


def object_on(line: bytes) -> dict | None:
    """The object that a line is; None where it is damaged."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _record_of(line: bytes) -> dict | None:
    """The object on a line; None when it was not written whole, or is damaged."""
    return object_on(line) if line.endswith(b"\n") else None


def sound_records(path: Path, is_sound: Callable[[dict], bool]) -> list[dict]:
    """The records of a file whose lines do not depend on each other, without the damaged ones."""
    found = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            record = _record_of(line)
            if record is not None and is_sound(record):
                found.append(record)
            else:
                log.warning("%s: line %d is damaged and passed over", path, number)
    return found


def end_last_line(path: Path) -> None:
    """Cut off a line that was not written whole, or the next one would be spoilt with it."""
    if not path.exists():
        return
    content = path.read_bytes()
    os.truncate(path, content.rfind(b"\n") + 1)
