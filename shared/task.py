"""What a task is: two halves, written against this file and nothing else of the engine.

The engine makes batch n, moves it, trains on it, keeps it safe and shows it. A task says what an
example is, how it is read, what is computed of it on the data GPU (`DataSide`, in the preparation
and in the data process), and what is learned from it (`ModelSide`, in the model process). The halves
are separate because different processes run them, and so that a file can bring one of them and use
the other of a task that is built in.

Every promise of the engine holds for a task whose `look`, `features`, `companions` and `fill` are pure:
what they return depends on their arguments, the file and the version of the task, and on nothing else.
`launcher.py validate --task FILE` shows whether that is so.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from shared.config.settings import Config
    from shared.plan.index import Index

BAD, FILTERED = "bad", "filtered"
# name -> (dtype, shape)
Arrays = Mapping[str, tuple[str, tuple[int, ...]]]


@dataclasses.dataclass(frozen=True)
class Example:
    """One example of a data set, as `DataSide.examples` finds it, before anything is opened.

    `path` is relative to the data folder, with "/". Examples of one `group` (a speaker, a class, a
    page) can serve as each other's companions. `payload` is what else is known of it: anything that
    JSON holds. `split` is 0 for training, 1 for validation, None to have that decided.
    """

    id: str
    path: str
    group: str = "default"
    payload: Any = None
    line: int = 0  # in the metadata file, from 1
    metadata: str = ""  # name of that file
    root: int = 0  # 0 = the training data's folder, 1 = the validation data's
    split: int | None = None


@dataclasses.dataclass(frozen=True)
class LeftOut:
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


class LeaveOut(Exception):
    """Raised by `look`: this example is not to be used, for the reason given."""

    def __init__(self, reason: str, kind: str = BAD):
        super().__init__(reason)
        self.reason, self.kind = reason, kind


@dataclasses.dataclass(frozen=True)
class Looked:
    """What `look` found in an example.

    lengths: one number ≥ 1 for each name in `DataSide.lengths`. arrays: small 1-D arrays that the
    index keeps, for `fill`. found: anything else that `corpus` wants to know; it is not kept.
    """

    lengths: tuple[int, ...] = ()
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    found: Any = None


class Source(NamedTuple):
    """A data folder: the examples in it, and a digest that differs when they do."""

    folder: Path
    digest: str
    read: Callable[[], Sequence[Example | LeftOut]]
    format: str = ""


class Corpus(NamedTuple):
    """What the index keeps of all examples together: columns by row, arrays and facts of the whole."""

    columns: dict[str, Any]  # name -> array (rows,), StringColumn or RaggedColumn
    arrays: dict[str, np.ndarray]  # of two dimensions or more
    facts: dict[str, Any]  # what JSON holds


class Indexed:
    """One example of a run's index, as the data process hands it to a task."""

    __slots__ = ("index", "path", "row")

    def __init__(self, index: Index, row: int, path: Path):
        self.index = index
        self.row = row
        self.path = path

    @property
    def id(self) -> str:
        return self.index.ids[self.row]

    @property
    def payload(self) -> Any:
        """What `examples` gave it."""
        return json.loads(self.index.columns["payload"][self.row])

    def __getitem__(self, name: str) -> Any:
        """Its entry in a column of the index, such as an array that `look` found."""
        return self.index.columns[name][self.row]


class Companion(NamedTuple):
    """The other example of the same group that goes with one of the batch.

    Either its features are known or it has just been read. `offset` in [0, 1) is this batch's own
    random number for it: where to crop, say.
    """

    features: Any | None
    raw: Any | None
    offset: float


class DataSide:
    """The half of a task that runs in the preparation and in the data processes.

    A subclass names its `lengths` and implements `examples`, `arrays`, `read` and `fill`; what else is
    here has a default. TensorFlow may be imported in `open` and what comes after it, not before: the
    preparation runs without.
    """

    version = 1  # raise it when the same data gives other batches than before
    lengths: tuple[
        str, ...
    ] = ()  # names; batches are padded to them, the first one chooses the bucket
    companion = False  # whether each example is given another one of its group
    group_column = "group"  # what the index calls the groups

    def __init__(self, config: Config):
        self.config = config

    # In the preparation, once.

    def source(self, path: Path, root: int, with_held_out: bool) -> Source:
        """The data set at `path`; `root` is 0 for the training data, 1 for the validation data.

        Raises:
            DataError: there is none.
        """
        found = [
            dataclasses.replace(each, root=root) if each.root != root else each
            for each in self.examples(path)
        ]
        told = json.dumps([dataclasses.astuple(each) for each in found], sort_keys=True)
        return Source(path, hashlib.sha256(told.encode()).hexdigest(), lambda: found)

    def examples(self, folder: Path) -> Iterable[Example | LeftOut]:
        """Every example in a folder, in an order of its own."""
        raise NotImplementedError

    def look(self, example: Example, path: Path) -> Looked:
        """Look at one example, whose file is at `path`. In a process of its own.

        Raises:
            LeaveOut: it can't be used.
        """
        return Looked()

    def corpus(
        self,
        examples: Sequence[Example],
        looked: Sequence[Looked],
        is_training: np.ndarray,
        pool: Any,
    ) -> Corpus:
        """What the index keeps of them beside ids, paths and splits.

        The default: the lengths, the arrays, the groups and the payloads.
        """
        from shared.plan.index import RaggedColumn, StringColumn

        groups = sorted({example.group for example in examples})
        number_of = {name: number for number, name in enumerate(groups)}
        columns: dict[str, Any] = {
            name: np.array([each.lengths[place] for each in looked], np.int32)
            for place, name in enumerate(self.lengths)
        }
        columns[self.group_column] = np.array([number_of[e.group] for e in examples], np.int32)
        if any(example.payload is not None for example in examples):
            columns["payload"] = StringColumn.of(json.dumps(e.payload) for e in examples)
        for name in looked[0].arrays:
            columns[name] = RaggedColumn.of([np.asarray(each.arrays[name]) for each in looked])
        return Corpus(columns, {}, {"groups": groups})

    # In a data process.

    def open(self, index: Index) -> None:
        """Get ready to make features; the device is settled. TensorFlow may be imported from here on."""

    def recipe(self) -> dict[str, str]:
        """All that decides what `read` and `features` compute: settings, versions of libraries.

        Two hosts whose recipes differ don't serve one run, and features that are kept on disk are used
        again only by the same one.
        """
        return {}

    def arrays(self, rows: int, lengths: tuple[int, ...]) -> Arrays:
        """Names, dtypes and shapes of a batch of `rows` examples padded to `lengths`. Pure."""
        raise NotImplementedError

    def read(self, example: Indexed, on_piece: Callable[[], None]) -> Any:
        """An example from its file, in a reader thread.

        `on_piece` is to be called for each piece of the file that has come from the disk, so that
        slow storage and slow decoding can be told apart, and neither taken for a hang.

        Raises:
            ReadError: it can't be had. Any other exception counts as one, too.
        """
        raise NotImplementedError

    def features(
        self, raw: Mapping[int, Any], rows: int, lengths: tuple[int, ...]
    ) -> Mapping[int, Any]:
        """What is computed of examples on the data GPU, and kept for later epochs.

        `raw` maps rows of the batch to what `read` returned; the result has the same keys. An
        example's features must be the same, bit for bit, in any row, batch and company.
        """
        return raw

    def companions(self, wanted: Mapping[int, Companion]) -> Mapping[int, Any]:
        """What `fill` gets of each companion: by default its features, and nothing is made of it.

        `wanted` maps rows of the batch to companions.
        """
        raise NotImplementedError

    def begin(self, arrays: dict[str, np.ndarray]) -> None:
        """Set a batch's arrays to what padding is: 0 by default."""
        for array in arrays.values():
            array.fill(0)

    def fill(
        self,
        arrays: dict[str, np.ndarray],
        slot: int,
        example: Indexed,
        features: Any,
        companion: Any | None,
    ) -> None:
        """Write one example into row `slot` of the batch's arrays."""
        raise NotImplementedError

    def warm_up(self, rows: int, lengths: tuple[int, ...]) -> None:
        """Build the graphs that a batch of this shape needs, so that none of them waits for that."""

    @property
    def num_graphs(self) -> int:
        """Graphs that were built so far: a batch that built one is no measure of the others."""
        return 0


class Facts(NamedTuple):
    """What a model is built from."""

    index: Index
    config: Config

    def __getattr__(self, name: str) -> Any:
        """A fact that `DataSide.corpus` put into the index, such as `facts.groups`."""
        try:
            return self.index.facts[name]
        except KeyError:
            raise AttributeError(f"the index has no fact {name!r}") from None


class Amount(NamedTuple):
    """How much a batch holds, in the task's unit: without and with what is padding."""

    real: float
    padded: float


class ModelSide:
    """The half of a task that runs in the model process.

    A subclass implements `build` and `losses`. A loss part of another player (see `players`) is named
    `player/part`.
    """

    unit = "examples"  # what people count its data in
    judged_by: str | None = (
        None  # the loss part that says which checkpoint is the best; None = their sum
    )
    parts: tuple[str, ...] | None = (
        None  # the names that `losses` returns; None = found by tracing it
    )

    def __init__(self, config: Config):
        self.config = config

    def build(self, facts: Facts) -> keras.Model:
        """The model, with every variable it will ever have."""
        raise NotImplementedError

    def losses(
        self, model: keras.Model, batch: dict[str, tf.Tensor], training: bool, step: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The parts of the loss, each summed over the batch's real examples (`batch["weight"]`)."""
        raise NotImplementedError

    def weight(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """What the sums of a group of batches are divided by together: the examples by default."""
        import tensorflow as tf

        return tf.reduce_sum(batch["weight"])

    def players(self, model: keras.Model) -> dict[str, list[keras.Variable]]:
        """Who learns what: {"": all} by default; a GAN has {"generator": …, "discriminator": …}.

        The gradients of all are taken of the same weights, each of its own parts of the loss.
        """
        return {"": model.trainable_variables}

    def matrices(self, model: keras.Model) -> list[keras.Variable]:
        """The variables that take Muon's orthogonal updates with --optimizer muon; none by default."""
        return []

    def optimizer(self, player: str) -> keras.optimizers.Optimizer | None:
        """A Keras optimizer with its own rate; None for the engine's, with warm-up and cosine."""
        return None

    def peak_rate(self) -> float:
        """Learning rate of the engine's optimizer where --learning-rate gives none."""
        return 1e-3

    def amount(self, arrays: Mapping[str, np.ndarray]) -> Amount:
        """How much of `unit` a batch holds."""
        weight = arrays["weight"]
        return Amount(float(np.count_nonzero(weight > 0)), float(len(weight)))

    def viewer(self, model: keras.Model, index: Index) -> Viewer | None:
        """Shows people what the model can do by now, at each validation; None = nothing to show."""
        return None

    def begin_from(
        self, model: keras.Model, arrays: Mapping[str, np.ndarray], index: Index, other: Index
    ) -> Mapping[str, np.ndarray]:
        """--init-from: another run's weights, by name, as they fit this model; `other` is its index."""
        return arrays


class Viewer:
    """Keeps a few held-out examples, and shows what the model makes of them."""

    def keep(self, batch: dict[str, tf.Tensor]) -> None:
        """Take what it wants from a validation batch that comes by."""
        raise NotImplementedError

    def make(self) -> Any:
        """Use the model, which has the averaged weights now."""
        raise NotImplementedError

    def write(self, made: Any, folder: Path) -> list[tuple[str, Any]]:
        """Write files into `folder`, in a thread of its own; training goes on meanwhile."""
        raise NotImplementedError
