"""Runs the preparation as a child process and shows how far it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

from shared.errors import DataError, TandemError
from shared.run_directory import RunDirectory
from shared.worker_processes import child_environment


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
    shown = _ProgressLine()
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


def _event(line: bytes) -> dict:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


class _ProgressLine:
    """One line that is rewritten on a terminal, and nothing elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stdout is not None and sys.stdout.isatty()
        self._dirty = False

    def show(self, what: str, done: int, total: int) -> None:
        if self._live:
            width = max(20, min(os.get_terminal_size().columns, 100) - 40)
            filled = width * done // max(1, total)
            bar = "█" * filled + "░" * (width - filled)
            sys.stdout.write(f"\r\x1b[K   {what[:18]} {bar} {done}/{total}")
            sys.stdout.flush()
            self._dirty = True

    def clear(self) -> None:
        if self._dirty:
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()
            self._dirty = False
