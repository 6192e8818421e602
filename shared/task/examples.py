"""The examples of a task, from the data folder to the index."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shared.errors import TaskError
from shared.hashing import as_uniform, hash_counters

if TYPE_CHECKING:
    from shared.plan.index import Index

BAD, FILTERED = "bad", "filtered"
DEFAULT_GROUP = "default"


class Example(NamedTuple):
    """One example of a data set, as `DataSide.examples` finds it, before anything is opened.

    `path` is relative to the data folder, with "/". Examples of one `group` (a person, a class, a
    page) can serve as each other's companions. `payload` is what else is known of it: anything
    that JSON holds. `split` is 0 for training, 1 for validation, None to have that decided.
    """

    id: str
    path: str
    group: str = DEFAULT_GROUP
    payload: Any = None
    line: int = 0  # in the metadata file, from 1
    metadata: str = ""  # name of that file
    root: int = 0  # 0 = the training data's folder, 1 = the validation data's
    split: int | None = None


class LeftOut(NamedTuple):
    """One example that is not trained on, and why. Filtered ones are sound, but not wanted."""

    id: str
    line: int
    path: str
    kind: str  # bad or filtered
    reason: str
    metadata: str = ""
    root: int = 0

    @classmethod
    def of(cls, example: Example, kind: str, reason: str) -> LeftOut:
        return cls(
            example.id, example.line, example.path, kind, reason, example.metadata, example.root
        )


def in_root(found: Example | LeftOut, root: int) -> Example | LeftOut:
    """The same of the training data (0) or of the validation data (1), which is not split."""
    if root and isinstance(found, Example):
        return found._replace(root=root, split=1)
    return found._replace(root=root)


def misfit_of_found(found: Any) -> str:
    """What is wrong with an entry that `examples` gave, in words; empty where nothing is."""
    if isinstance(found, LeftOut):
        return ""
    if not isinstance(found, Example):
        return f"it gave {type(found).__name__}; expected shared.task.Example or LeftOut"
    for name in ("id", "path", "group", "metadata"):
        value = getattr(found, name)
        if not isinstance(value, str):
            return f"the {name} of example {found.id!r} is {type(value).__name__}; expected text"
    if found.path.startswith("/"):
        return (
            f"the path of example {found.id!r} is {found.path!r}; expected one relative to the "
            "data folder"
        )
    if found.split not in (None, 0, 1):
        return f"the split of example {found.id!r} is {found.split!r}; expected None, 0 or 1"
    try:
        json.dumps(found)
    except (TypeError, ValueError) as error:
        return f"the payload of example {found.id!r} is not what JSON holds ({error})"
    return ""


class LeaveOut(Exception):
    """Raised by `look`: this example is not to be used, for the reason given."""

    def __init__(self, reason: str, kind: str = BAD):
        super().__init__(reason)
        self.reason, self.kind = reason, kind

    def __reduce__(self) -> tuple:
        return LeaveOut, (self.reason, self.kind)


@dataclasses.dataclass(frozen=True)
class Looked:
    """What `look` found in an example.

    lengths: one number ≥ 1 for each name in `DataSide.lengths`. arrays: small 1-D arrays that the
    index keeps, for `row`. found: anything else that `corpus` wants to know; it is not kept.
    """

    lengths: tuple[int, ...] = ()
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    found: Any = None


class Source(NamedTuple):
    """A data set: its folder, the examples in it, and a digest that differs when they do."""

    folder: Path
    digest: str
    read: Callable[[], Sequence[Example | LeftOut]]


class Survey(NamedTuple):
    """What is known before the first look: how files are looked at, and words for that."""

    verify: str = "look"
    words: str = "looking at every file once"
    format: str = "task"  # of the data set


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What the index keeps of all examples together: columns by row, tables and facts of all."""

    columns: dict[str, Any]  # name -> array (rows,), StringColumn or RaggedColumn
    tables: dict[str, np.ndarray]  # of two dimensions or more
    facts: dict[str, Any]  # what JSON holds; all of it decides what is in a batch
    remarks: dict[str, Any] = dataclasses.field(default_factory=dict)  # JSON too, for people


class Indexed:
    """One example of a run's index, as the data process hands it to a task."""

    __slots__ = ("_draw", "index", "path", "row")

    def __init__(self, index: Index, row: int, path: Path, draw: int | None = None):
        """`draw`: this batch's own random number for it, where there is a batch."""
        self.index = index
        self.row = row
        self.path = path
        self._draw = draw

    def in_batch(self, draw: int) -> Indexed:
        """The same example as `row` gets it, with the random number that it has there."""
        return Indexed(self.index, self.row, self.path, draw)

    @property
    def draw(self) -> int:
        """A random number of 64 bits, for `row` alone: another one in each epoch.

        A hash of the run's seed, the epoch and the example, so a batch is the same whoever makes it;
        in every validation the same. `numpy.random.default_rng(example.draw)` goes on from there.

        Raises:
            TaskError: it was asked for where no batch is being made.
        """
        if self._draw is None:
            raise TaskError(
                f"Example {self.id} was asked for its draw outside of row(). What read() and "
                "features() return is kept for later epochs, so it can't be random."
            )
        return self._draw

    def uniform(self, count: int) -> np.ndarray:
        """`count` random numbers in [0, 1) that follow from `draw`, float64 (count,)."""
        return as_uniform(hash_counters(self.draw, 0, 0, np.arange(count)))

    @property
    def id(self) -> str:
        return self.index.ids[self.row]

    @property
    def payload(self) -> Any:
        """What `examples` gave it."""
        column = self.index.columns.get("payload")
        return None if column is None else json.loads(str(column[self.row]))

    @property
    def group(self) -> str:
        """The group that `examples` gave it."""
        return self.index.facts["groups"][int(self.index.columns["group"][self.row])]

    def __getitem__(self, name: str) -> Any:
        """Its entry in a column of the index, such as an array that `look` found."""
        return self.index.columns[name][self.row]


class Companion(NamedTuple):
    """The other example of the same group that goes with one of the batch.

    Either its features are known or it has just been read. `offset` in [0, 1) is this batch's own
    random number for it: where to crop, say.
    """

    example: Indexed
    features: Any  # None where it was read
    raw: Any  # None where its features are known
    offset: float
