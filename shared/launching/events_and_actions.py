"""What can happen to the workers of a run, and what the launcher can do about it, as plain values."""

from __future__ import annotations

import dataclasses

from shared.errors import Trouble
from shared.worker.reports import Cause, Convicted, Failure, Phase, Progress

# The reports that decide something. Nothing else does: a worker whose work hangs can tell much.
Deciding = Phase | Progress | Convicted | Cause | Failure


@dataclasses.dataclass(frozen=True)
class Reported:
    worker: str
    report: Deciding
    now_s: float


@dataclasses.dataclass(frozen=True)
class Exited:
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
    now_s: float


@dataclasses.dataclass(frozen=True)
class Ticked:
    now_s: float


Event = Reported | Exited | Inspected | StopAsked | Ticked


@dataclasses.dataclass(frozen=True)
class Spawn:
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
    worker: str


@dataclasses.dataclass(frozen=True)
class AskToStop:
    worker: str


@dataclasses.dataclass(frozen=True)
class Kill:
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
    text: str


@dataclasses.dataclass(frozen=True)
class Finish:
    exit_code: int
    cause: str
    trouble: Trouble = Trouble.OTHER


Action = Spawn | TakeOver | DumpStack | AskToStop | Kill | GiveUp | Replace | Tell | Finish
