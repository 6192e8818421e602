"""What the ticket ledger is told, and what it says must be done: plain values."""

from __future__ import annotations

import dataclasses
import enum

Worker = bytes


@dataclasses.dataclass(frozen=True)
class WorkerJoined:
    """A data process was let in, and takes so many tickets at once."""

    worker: Worker
    capacity: int


@dataclasses.dataclass(frozen=True)
class WorkerLeft:
    """A data process is gone, and whatever was asked of it must be asked of another."""

    worker: Worker


@dataclasses.dataclass(frozen=True)
class BatchArrived:
    """`batch` is here, made with so much known of what is left out."""

    worker: Worker
    batch: int
    exclusions_version: int


@dataclasses.dataclass(frozen=True)
class FailureDropped:
    """A worker could not make `batch`, which counts for nothing: another has made it meanwhile."""

    worker: Worker
    batch: int


@dataclasses.dataclass(frozen=True)
class BatchSuspended:
    """`batch`, which is outstanding, is not to be made before it is named in `ExampleExcluded`."""

    batch: int


@dataclasses.dataclass(frozen=True)
class BatchTaken:
    """The training loop has taken the head of the queue."""


@dataclasses.dataclass(frozen=True)
class ExampleExcluded:
    """Exclusions are now at `version`; the `affected` batches must be made (again) with it.

    The first of them is the one that could not be made for the example's sake, and is outstanding.
    """

    version: int
    affected: frozenset[int]


@dataclasses.dataclass(frozen=True)
class ClockTicked:
    """Time has passed, and nothing else."""

    now_s: float


Event = (
    WorkerJoined
    | WorkerLeft
    | BatchArrived
    | FailureDropped
    | BatchSuspended
    | BatchTaken
    | ExampleExcluded
    | ClockTicked
)


class DropReason(enum.StrEnum):
    """Why an arrival counts for nothing."""

    DUPLICATE = "duplicate"
    NOT_ASKED_FOR = "not asked for"
    EXCLUDED = "made with an example that is excluded"


@dataclasses.dataclass(frozen=True)
class Issue:
    """Send the ticket for `batch` to `worker`."""

    worker: Worker
    batch: int


@dataclasses.dataclass(frozen=True)
class Accept:
    """Keep the batch that just arrived."""

    batch: int


@dataclasses.dataclass(frozen=True)
class Drop:
    """Throw away the batch that just arrived."""

    batch: int
    reason: DropReason


@dataclasses.dataclass(frozen=True)
class Recall:
    """Throw away a batch that was accepted: an example in it has been excluded since."""

    batch: int


Action = Issue | Accept | Drop | Recall
