"""Everything that travels between a data process and the model process, as plain dataclasses.

Facts are named as facts, orders as orders. Bytes exist only in `codec`, sockets only in `sockets`.
"""

from __future__ import annotations

import dataclasses

import numpy as np

PROTOCOL_VERSION = 3


@dataclasses.dataclass(frozen=True)
class Hello:
    """A data process introduces itself; the fingerprints prove that it reads the same run."""

    worker: str
    pid: int
    index_fingerprint: str
    plan_fingerprint: str
    device_kind: str  # "cpu", "gpu" or "fake"
    tensorflow: str
    capacity: int  # tickets it can work on at once
    # All that decides the features it makes: settings, versions of libraries.
    recipe: dict[str, str] = dataclasses.field(default_factory=dict)
    # Memory in which it makes its batches, for a model process on its host: a name for it, the
    # number of its descriptor, and the bytes of a slot. No name: there is none.
    memory: str = ""
    memory_descriptor: int = 0
    memory_slot_bytes: int = 0


NOT_SAID = -1.0  # as a busy share: the maker's device doesn't tell


@dataclasses.dataclass(frozen=True)
class BatchReady:
    """Batch `batch` is made; `timings_ms` says where its time went, `busy` how busy its maker is."""

    batch: int
    exclusions_version: int
    timings_ms: dict[str, float]
    busy: float
    arrays: dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class CannotRead:
    """Example `row` of the index can't be read, found while making `batch`."""

    batch: int
    row: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Goodbye:
    """The data process leaves; its tickets are free again."""

    reason: str


@dataclasses.dataclass(frozen=True)
class Welcome:
    """The data process is accepted into the model process's session; its memory too, if named."""

    worker: str
    memory: str = ""


@dataclasses.dataclass(frozen=True)
class Refused:
    """The data process is turned away, and why."""

    reason: str


@dataclasses.dataclass(frozen=True)
class Introduce:
    """The model process does not know this session: say Hello (again)."""


@dataclasses.dataclass(frozen=True)
class Exclude:
    """Leave out these too; the worker knew `version` of them before.

    Each is [row, from_batch], or [row, from_batch, until_batch] where it does not hold for ever.
    """

    version: int
    entries: list[list[int]]


@dataclasses.dataclass(frozen=True)
class MakeBatch:
    """A ticket: make batch `batch` with the first `exclusions_version` exclusions."""

    batch: int
    exclusions_version: int


@dataclasses.dataclass(frozen=True)
class StopProducing:
    """The run is over for the data process."""

    reason: str


Message = (
    Hello
    | BatchReady
    | CannotRead
    | Goodbye
    | Welcome
    | Refused
    | Introduce
    | Exclude
    | MakeBatch
    | StopProducing
)


@dataclasses.dataclass(frozen=True)
class Envelope:
    """A message with what identifies its sender's view of the run."""

    run: str
    session: str  # empty until the model process has given one
    sequence: int
    message: Message
