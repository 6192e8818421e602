"""Which process it is, so that another one can tell whether it still lives."""

from __future__ import annotations

import dataclasses
import os
import platform
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Presence:
    """A process. A number is given out again; with the time of its start it is one process's own."""

    host: str
    boot_id: str  # of the machine's kernel, since it was started
    pid_namespace: str  # in which the pid is a number: a container has its own
    pid: int
    started_ticks: int  # after the machine's start, as /proc/PID/stat has it


def own_presence() -> Presence:
    """The presence of this process."""
    pid = os.getpid()
    return Presence(platform.node(), _boot_id(), _pid_namespace(), pid, _started_ticks(pid) or 0)


def is_alive(presence: Presence) -> bool | None:
    """Whether the process lives; None where that can't be known from here."""
    if not presence.boot_id or presence.boot_id != _boot_id():
        return None  # another machine, or this one before it was started again
    if presence.pid_namespace != _pid_namespace():
        return None
    started_ticks = _started_ticks(presence.pid)
    if started_ticks is not None:
        return started_ticks == presence.started_ticks
    # Another user's, on a machine that hides those.
    return None if Path(f"/proc/{presence.pid}").exists() or _is_hidden(presence.pid) else False


def _is_hidden(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _boot_id() -> str:
    return _text("/proc/sys/kernel/random/boot_id")


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started_ticks(pid: int) -> int | None:
    """None where there is no such process to be seen; 0 of one that only waits to be reaped."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20:
        return None
    # After the name: the state is the 3rd of the file, the start the 22nd.
    return 0 if fields[0] in "ZX" else int(fields[19])


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
