"""Runs the preparation as a child process and shows how far it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from shared.errors import DataError, TandemError
from shared.run_directory import RunDirectory
from shared.worker_processes import child_environment

_SAID_EVERY_S = 10.0


def prepare_run(run: RunDirectory, say: Callable[[str], None]) -> dict:
    """Write the run's index and quarantine; returns the preparation's summary.

    Raises:
        DataError: the data set can't be used, and why.
        TandemError: the preparation itself broke off.
    """
    arguments = [sys.executable, "-m", "data_worker.preparation", "--run", str(run.path)]
    log_path = run.log_of("preparation")
    with open(log_path, "wb") as log:
        child = subprocess.Popen(
            arguments,
            env=child_environment({"CUDA_VISIBLE_DEVICES": ""}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    shown = _ProgressLine(say)
    try:
        for line in child.stdout:
            event = _event(line)
            if event.get("event") == "progress":
                shown.show(str(event.get("what")), int(event["done"]), int(event["total"]))
            elif event.get("event") == "prepared":
                shown.clear()
                summary = event
            elif event.get("event") == "error":
                shown.clear()
                child.wait()
                raise DataError(str(event.get("message")))
            elif event.get("event") == "say":
                shown.clear()
                say(str(event.get("text")))
        status = child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise
    finally:
        shown.clear()
        child.stdout.close()
    if status != 0:
        raise TandemError(f"the preparation ended with status {status}; see {log_path}")
    return summary


def progress_line(what: str, done: int, total: int, columns: int) -> str:
    """What is being done, a bar where there is room for one, and how far it is."""
    count = f" {done:,}/{total:,}" if total else ""
    words = f"   {what}"
    room = min(40, columns - len(words) - len(count) - 2)
    if total and room >= 8:
        filled = room * done // total
        words += " " + "█" * filled + "░" * (room - filled)
    return (words[: max(0, columns - 1 - len(count))] + count)[: max(0, columns - 1)]


def _event(line: bytes) -> dict:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


class _ProgressLine:
    """One line that is rewritten on a terminal; elsewhere a line now and then, if it takes long."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._live = sys.stdout is not None and sys.stdout.isatty()
        self._dirty = False
        self._said_s = time.monotonic()

    def show(self, what: str, done: int, total: int) -> None:
        if self._live:
            line = progress_line(what, done, total, os.get_terminal_size().columns)
            sys.stdout.write(f"\r\x1b[K{line}")
            sys.stdout.flush()
            self._dirty = True
        elif time.monotonic() - self._said_s >= _SAID_EVERY_S:
            self._said_s = time.monotonic()
            self._say(progress_line(what, done, total, 60))

    def clear(self) -> None:
        if self._dirty:
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()
            self._dirty = False
