"""What can happen to the workers of a run, and what the launcher can do about it, as plain values."""

from __future__ import annotations

import dataclasses

from shared.errors import Trouble
from shared.worker.reports import Cause, Convicted, Failure, Phase, Progress

# The reports that decide something. Nothing else does: a worker whose work hangs can tell much.
Deciding = Phase | Progress | Convicted | Cause | Failure


@dataclasses.dataclass(frozen=True)
class Reported:
    """A worker has told something."""

    worker: str
    report: Deciding
    now_s: float


@dataclasses.dataclass(frozen=True)
class Exited:
    """A process is over."""

    worker: str
    status: int  # as subprocess has it: negative for a signal
    now_s: float
    reading: tuple[int, ...] = ()  # rows of the index that it was decoding


@dataclasses.dataclass(frozen=True)
class Inspected:
    """What the system says of a process that lives."""

    worker: str
    is_stopped: bool  # by a signal
    now_s: float


@dataclasses.dataclass(frozen=True)
class StopAsked:
    """The user wants the run to end."""

    now_s: float


@dataclasses.dataclass(frozen=True)
class Ticked:
    """Time has passed, and nothing else."""

    now_s: float


Event = Reported | Exited | Inspected | StopAsked | Ticked


@dataclasses.dataclass(frozen=True)
class Spawn:
    """Start a worker."""

    worker: str
    suspects: tuple[int, ...] = ()  # rows, one of which may have crashed the one before


@dataclasses.dataclass(frozen=True)
class TakeOver:
    """The process `spare` goes on as `worker`."""

    spare: str
    worker: str
    suspects: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class DumpStack:
    """Have a worker that hangs write its stack into its log."""

    worker: str


@dataclasses.dataclass(frozen=True)
class AskToStop:
    """Have a worker end what it is at, and itself."""

    worker: str


@dataclasses.dataclass(frozen=True)
class Kill:
    """End a process at once."""

    worker: str


@dataclasses.dataclass(frozen=True)
class GiveUp:
    """Do not wait for a process that SIGKILL does not end."""

    worker: str


@dataclasses.dataclass(frozen=True)
class Replace:
    """Tell that a worker has died and will be replaced; its Spawn or TakeOver is another action."""

    worker: str
    cause: str
    by_spare: bool = False


@dataclasses.dataclass(frozen=True)
class Tell:
    """Say something to the user, and go on."""

    text: str


@dataclasses.dataclass(frozen=True)
class Finish:
    """End the run, once every process of it has ended."""

    exit_code: int
    cause: str
    trouble: Trouble = Trouble.OTHER


Action = Spawn | TakeOver | DumpStack | AskToStop | Kill | GiveUp | Replace | Tell | Finish
