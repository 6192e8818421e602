"""Which model process may write what a run keeps: the one that began last.

A process that nobody can reach may live on, while another took its place. Each start has a number of
its own, an epoch, which is in a file of the run directory: whoever finds a higher one there has been
replaced, and saves and logs nothing more.
"""

from __future__ import annotations

import json
import os
import platform
import time

from shared.errors import TandemError
from shared.run.directory import RunDirectory
from shared.run.files import write_file

EPOCH_VARIABLE = "TANDEM_EPOCH"  # that the launcher gives a model process
_LOOK_EVERY_S = 1.0


class SupersededError(TandemError):
    """Another process has taken this one's place."""


def next_epoch(run: RunDirectory) -> int:
    """The number of a start that comes after all others so far."""
    return _read(run)[0] + 1


class Writer:
    """This process's right to write; lost when another begins after it."""

    def __init__(self, run: RunDirectory):
        """Take the place of all before.

        Raises:
            SupersededError: another has begun since the launcher started this one.
        """
        self._run = run
        given = os.environ.get(EPOCH_VARIABLE)
        self._epoch = int(given) if given else next_epoch(run)
        self._looked_s = 0.0
        if _read(run)[0] >= self._epoch:
            self._lose()
        holder = {"epoch": self._epoch, "host": platform.node(), "pid": os.getpid()}
        write_file(run.writer, json.dumps(holder).encode() + b"\n")

    def check(self, at_once: bool = True) -> None:
        """`at_once`: do not trust a look of a moment ago.

        Raises:
            SupersededError: another has begun.
        """
        now_s = time.monotonic()
        if at_once or now_s - self._looked_s > _LOOK_EVERY_S:
            self._looked_s = now_s
            if _read(self._run)[0] > self._epoch:
                self._lose()

    def _lose(self) -> None:
        epoch, host = _read(self._run)
        raise SupersededError(
            f"{self._run.path}: a model process that was started later{f' on {host}' if host else ''} "
            f"trains this run (its epoch is {epoch}, this one's {self._epoch}). This one ends, and "
            "has written nothing since."
        )


def _read(run: RunDirectory) -> tuple[int, str]:
    """The highest epoch so far and the host of its process; a damaged file is none."""
    try:
        found = json.loads(run.writer.read_text("utf-8"))
        return int(found["epoch"]), str(found["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0, ""
