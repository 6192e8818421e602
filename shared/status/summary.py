"""A run in one line: how it is, how far, how long still, and what it takes of the disk."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared.run.directory import RunDirectory
from shared.run.record_numbers import finite_number
from shared.status.run_state import RunState, State, look_at

_TAIL_BYTES = 64 << 10  # of metrics.jsonl: the last records, however long the run was
_DEPTH = 3  # of folders that are looked into for runs


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """What `runs` tells of a run."""

    run: str
    state: State
    why: str
    step: int | None
    total_steps: int | None  # None where nobody knows it
    loss: float | None
    val_loss: float | None
    left_s: float | None  # of a run that goes on
    disk_bytes: int
    host: str
    pid: int | None  # of the process that keeps it, while it goes on


def runs_below(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """The run directories in a folder, or the folder itself; by name."""
    if (folder / "config.toml").is_file():
        yield folder
        return
    if depth == 0:
        return
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return
    for path in inside:
        if not path.name.startswith("."):
            yield from runs_below(path, depth - 1)


def summary_of(run: RunDirectory) -> RunSummary:
    """One run's."""
    found = look_at(run)
    status = found.status
    steps, validations = _last_records(run.metrics)
    if status is not None and status.record:
        steps = status.record
    outlook = status.outlook if status is not None else None
    val_loss = finite_number(validations, "val_loss")
    goes_on = found.state.is_going_on
    return RunSummary(
        run=str(run.path),
        state=found.state,
        why=found.why,
        step=_whole(steps, "step"),
        total_steps=outlook.total_steps or None if outlook else None,
        loss=finite_number(steps, "loss"),
        val_loss=status.val_loss if val_loss is None and status else val_loss,
        left_s=left_s(found) if goes_on else None,
        disk_bytes=disk_bytes(run.path),
        host=status.presence.host if status else "",
        pid=status.presence.pid if status and goes_on else None,
    )


def left_s(found: RunState, now_s: float | None = None) -> float | None:
    """Of the time that the last numbers spoke of."""
    status = found.status
    if status is None or status.outlook is None or not status.outlook.steps_per_s:
        return None
    since_s = (time.time() if now_s is None else now_s) - status.told_s
    return max(0.0, status.outlook.left_s - max(0.0, since_s))


def disk_bytes(folder: Path) -> int:
    """What the files of a folder take."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(where, name)).st_blocks * 512
            except OSError:
                continue  # a checkpoint that was just dropped
    return total


def _last_records(metrics: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The last step and the last validation that are written down."""
    step: dict[str, Any] = {}
    validation: dict[str, Any] = {}
    try:
        with open(metrics, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).split(b"\n")
    except OSError:
        return step, validation
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(record, dict):
            continue
        if "val_loss" in record:
            validation = validation or record
        elif "step_ms" in record:
            step = step or record
        if step and validation:
            break
    return step, validation


def _whole(record: dict[str, Any], name: str) -> int | None:
    value = finite_number(record, name)
    return None if value is None else int(value)
