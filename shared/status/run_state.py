"""How a run is, from its directory alone: going on, or how it came to its end."""

from __future__ import annotations

import dataclasses
import enum
import time

from shared.clock import clock
from shared.errors import InputError
from shared.run.directory import RunDirectory
from shared.run.event_log import Ended, read_events
from shared.status.presence import is_alive
from shared.status.run_status import RunStatus
from shared.status.status_file import read_status
from shared.worker.contract import EXIT_FINISHED, EXIT_INTERRUPTED

# For a process that can't be seen from here: its clock may be another, its storage slow to tell.
SILENT_S = 90.0
_GOES_ON = "the same command goes on from its last checkpoint"


class State(enum.StrEnum):
    """How a run is."""

    PREPARED = "prepared"  # and never started
    PREPARING = "preparing"
    TRAINING = "training"
    STOPPING = "stopping"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def is_going_on(self) -> bool:
        return self in (State.PREPARING, State.TRAINING, State.STOPPING)


@dataclasses.dataclass(frozen=True)
class RunState:
    """A run as it is found."""

    state: State
    why: str  # it failed, or was interrupted; empty where there is nothing to say
    status: RunStatus | None  # the last that was written
    ended: Ended | None = None


def the_run(path: str) -> RunDirectory:
    """The run directory that was named.

    Raises:
        InputError: it is none.
    """
    run = RunDirectory(path)
    if not run.config.is_file():
        there = "is not a run directory (it has no config.toml)" if run.path.is_dir() else (
            "there is no such folder"
        )  # fmt: skip
        raise InputError(f"{path}: {there}. Name one such as runs/NAME; 'runs' lists them.")
    return run


def look_at(
    run: RunDirectory, now_s: float | None = None, silent_s: float | None = None
) -> RunState:
    """The state of a run.

    `silent_s`: for how long its status has not changed, where someone has watched it.
    """
    status = read_status(run)
    if status is None:
        return _from_events(run, None)
    if status.ended is not None:
        return _from_ending(status.ended, status)
    alive = is_alive(status.presence)
    if alive is None:  # out of sight
        now_s = time.time() if now_s is None else now_s
        silent_s = max(0.0, now_s - status.written_s) if silent_s is None else silent_s
        if silent_s > SILENT_S:
            where = f"on {status.presence.host}" if status.presence.host else "elsewhere"
            words = f"nothing was heard from it, {where}, for {clock(silent_s)}"
            return _from_events(run, status, f"{words}; {_GOES_ON}")
        alive = True
    if not alive:
        words = f"the process that ran it (pid {status.presence.pid}) was killed; {_GOES_ON}"
        return _from_events(run, status, words)
    if status.is_stopping:
        return RunState(State.STOPPING, "", status)
    return RunState(State.PREPARING if status.preparing else State.TRAINING, "", status)


def _from_events(run: RunDirectory, status: RunStatus | None, if_unknown: str = "") -> RunState:
    """What the events say, if they end after what the status tells of."""
    events = read_events(run.events)
    last = events[-1] if events else None
    if isinstance(last, Ended) and (status is None or last.time_s >= status.started_s):
        return _from_ending(last, status)
    if status is None and not events and not run.metrics.exists():
        return RunState(State.PREPARED, "", None)
    why = if_unknown or f"there is no record of how it ended; {_GOES_ON}"
    return RunState(State.FAILED, why, status)


def _from_ending(ended: Ended, status: RunStatus | None) -> RunState:
    cause = "".join(each if each.isprintable() or each == "\n" else "?" for each in ended.cause)
    ended = dataclasses.replace(ended, cause=cause)
    if ended.exit_code == EXIT_FINISHED:
        return RunState(State.FINISHED, "", status, ended)
    if ended.exit_code == EXIT_INTERRUPTED:
        return RunState(State.INTERRUPTED, ended.cause, status, ended)
    return RunState(State.FAILED, ended.cause, status, ended)
