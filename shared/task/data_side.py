"""The data half of a task: from files to the arrays of a batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shared.errors import TaskError
from shared.task.batch import Array, BatchForm, BatchShape
from shared.task.examples import (
    Companion,
    Corpus,
    Example,
    Indexed,
    LeftOut,
    Looked,
    Source,
    Survey,
    in_root,
    misfit_of_found,
)
from shared.task.users_file import line_of

if TYPE_CHECKING:
    from shared.config.settings import Config
    from shared.plan.index import Index


class DataSide:
    """The half of a task that runs in the preparation and in the data processes.

    A subclass declares its `arrays` (and `lengths`, where examples differ in size), and implements
    `examples`, `read` and `row`; what else is here has a default. TensorFlow need not be imported
    before `open`: the preparation runs without.
    """

    version = 1  # raise it when the same data gives other batches than before
    # What examples differ in. Batches are padded to these; the first one chooses the bucket.
    lengths: ClassVar[tuple[str, ...]] = ()
    arrays: ClassVar[Mapping[str, Array]] = {}  # of a batch, beside the engine's weight and rows
    companion: ClassVar[str | None] = None  # "group": each example is given another of its group
    group_column = "group"  # what the index calls the groups
    # The columns of the index that `read` and `features` look at, beside the file; None: maybe all.
    read_columns: ClassVar[tuple[str, ...] | None] = None
    # Tasks with the same words here make the same index of the same data, so it is looked at once for
    # all of them. Empty: no other task does.
    same_index = ""
    noun = "examples"  # what people call them
    patience_s = 60.0  # that one `read` may take; then the example is left out, and says why

    def __init__(self, config: Config):
        self.config = config

    @classmethod
    def form(cls) -> BatchForm:
        """What of this the model process must know."""
        return BatchForm(cls.arrays, cls.lengths, cls.companion, cls.group_column)

    # In the preparation, once.

    def source(self, path: str, root: int, with_held_out: bool) -> Source:
        """The data set at `path`; `root` is 0 for the training data, 1 for the validation data.

        `with_held_out`: whether examples of the validation set may be among them.

        Raises:
            DataError: there is none.
            TaskError: what `examples` gave are no examples.
        """
        folder = Path(path)
        found = self.examples(folder)
        problem = "" if isinstance(found, Iterable) else f"it returned {type(found).__name__}"
        found = [] if problem else list(found)
        problem = problem or next(filter(None, map(misfit_of_found, found)), "")
        if problem:
            raise TaskError(f"{line_of(self.examples)}: {problem}.")
        found = [in_root(each, root) for each in found]
        told = json.dumps(found, sort_keys=True)
        return Source(folder, hashlib.sha256(told.encode()).hexdigest(), lambda: found)

    def examples(self, folder: Path) -> Iterable[Example | LeftOut]:
        """Every example in a folder, in an order of its own."""
        raise NotImplementedError

    def survey(self, examples: Sequence[Example], roots: Sequence[str]) -> Survey:
        """Called with all examples before the first look; what it sets of `self`, `look` finds."""
        return Survey()

    def look(self, example: Example, path: Path) -> Looked:
        """Look at one example, whose file is at `path`, in a process of its own.

        Raises:
            LeaveOut: it can't be used.
        """
        return Looked()

    def corpus(
        self,
        examples: Sequence[Example],
        looked: Sequence[Looked],
        is_training: np.ndarray,
        roots: Sequence[str],
        pool: Any,
    ) -> Corpus:
        """What the index keeps of them beside ids, paths and splits.

        The default: the lengths, the arrays, the groups and the payloads. `pool.map(function,
        items)` works on something in many processes.
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
        for example, each in zip(examples, looked, strict=True):
            if each.arrays.keys() != looked[0].arrays.keys():
                raise TaskError(
                    f"{type(self).__name__}.look found the arrays {sorted(looked[0].arrays)} in "
                    f"example {examples[0].id} and {sorted(each.arrays)} in {example.id}. Every "
                    "example needs the same ones."
                )
        for name in looked[0].arrays:
            columns[name] = RaggedColumn.of([np.asarray(each.arrays[name]) for each in looked])
        return Corpus(columns, {}, {"groups": groups})

    def has_turned_up(self, left_out: LeftOut, root: str) -> bool:
        """Whether an example that was left out for want of a file has one by now."""
        return False

    def nothing_found(self, folder: str) -> str:
        """What to say of a data set without examples."""
        return f"{folder}: the task's examples() found none there."

    def where_to_see(self, folder: str) -> str:
        """Where a person finds every example that was left out, in a sentence."""
        return "quarantine.jsonl in the run directory names every one."

    def words(self, index: Index) -> list[str]:
        """What there is to say of an index: a part of a sentence, then warnings in a line each."""
        groups = len(index.facts.get("groups", ()))
        return [f"{groups} groups" if groups > 1 else ""]

    # In a data process.

    def open(self, index: Index) -> None:
        """Get ready to make features; the device is settled."""

    def recipe(self) -> dict[str, str]:
        """All that decides what `read` and `features` compute: settings, versions of libraries.

        Two hosts whose recipes differ don't serve one run, and features that are kept on disk are
        used again only by the same one.
        """
        return {}

    def read(self, example: Indexed) -> Any:
        """An example from its file, `example.path`, in a reader thread.

        Raises:
            ReadError: it can't be had. Any other exception counts as one, too.
        """
        raise NotImplementedError

    def features(self, raws: Sequence[Any], shape: BatchShape) -> Sequence[Any]:
        """What is computed of examples on the data GPU, and kept for later epochs.

        `raws` is what `read` returned of at most `shape.rows` examples; the result has one entry
        for each, an array or a dictionary of arrays. An example's features must be the same, bit
        for bit, in any place, number and company.
        """
        return raws

    def companions(self, wanted: Sequence[Companion], shape: BatchShape) -> Sequence[Any]:
        """What `row` gets of each companion: by default its features."""
        missing = [each.raw for each in wanted if each.features is None]
        made = iter(self.features(missing, shape) if missing else ())
        return [next(made) if each.features is None else each.features for each in wanted]

    def row(self, example: Indexed, features: Any, companion: Any | None) -> dict[str, Any]:
        """One example's part of each array in `arrays`, without the padding.

        What is to differ from epoch to epoch, such as where a crop begins, follows from
        `example.draw` or `example.uniform`.
        """
        raise NotImplementedError

    def warm_up(self, shape: BatchShape) -> None:
        """Build the graphs that a batch of this shape needs, so that none of them waits for that."""

    @property
    def num_graphs(self) -> int:
        """Graphs that were built so far: a batch that built one is no measure of the others."""
        return 0


def stacked(raws: Sequence[np.ndarray], shape: BatchShape) -> np.ndarray:
    """Arrays of one shape as one array (shape.rows, …), zeros behind them.

    A graph that always gets as many rows is traced once, and computes an example the same way in
    a full batch and alone.
    """
    first = np.asarray(raws[0])
    batch = np.zeros((shape.rows, *first.shape), first.dtype)
    for place, raw in enumerate(raws):
        batch[place] = raw
    return batch
