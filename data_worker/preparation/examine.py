"""Every example of a data set looked at: which can be used, which are left out, and why."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from data_worker.preparation.crash_proof_pool import CarefulPool, Crashed, available_cores
from data_worker.preparation.held_out import hold_out
from data_worker.preparation.looking import Looker, Seen, state_to_send
from shared.config.settings import Config, DataConfig
from shared.errors import DataError
from shared.plan.index import TRAIN, TRAIN_ROOT, VAL_ROOT, VALIDATION
from shared.task import BAD, DataSide, Example, LeftOut, Source, Survey
from shared.task.registry import Task

Progress = Callable[[int, int, str], None]  # done, total, what

_MAX_PROCESSES = 16
_CHUNK_ROWS = 16


class DataRefused(DataError):
    """The data set can't be trained on; `left_out` names every example that is to blame.

    `found` says why, without the command that shows every one of them.
    """

    def __init__(self, found: str, left_out: list[LeftOut], where_to_see: str = ""):
        super().__init__(f"{found} {where_to_see}".rstrip())
        self.found = found
        self.left_out = left_out


class Examined(NamedTuple):
    """Every example of a data set, looked at."""

    examples: list[Example]  # the usable ones, in the order of the data set
    seen: list[Seen]  # what was found in each of them
    left_out: list[LeftOut]  # by line
    num_rows: int
    survey: Survey


class DataSet(NamedTuple):
    """A configuration's data, before anything in it is looked at."""

    config: Config
    task: Task
    side: DataSide
    sources: list[Source]
    new: dict[str, Any]  # attributes of a side that has just been made

    @classmethod
    def of(cls, config: Config, side: DataSide | None = None) -> DataSet:
        """Find the data.

        Raises:
            DataError: there is none.
        """
        task = Task.of(config.run.task)
        new: dict[str, Any] = {"config": config}
        if side is None:
            side = task.data_side()(config)
            new = dict(vars(side))
        data = config.data
        sources = [side.source(data.train_data or "", TRAIN_ROOT, not data.val_data)]
        if data.val_data:
            sources.append(side.source(data.val_data, VAL_ROOT, False))
        return cls(config, task, side, sources, new)

    @property
    def roots(self) -> tuple[str, ...]:
        return tuple(os.path.abspath(source.folder) for source in self.sources)


class Pool:
    """The pool as a task may use it: a function, items, and what that is for the progress bar."""

    def __init__(self, pool: CarefulPool, progress: Progress):
        self._pool, self._progress = pool, progress

    def map(
        self,
        function: Callable[[Any], Any],
        items: Sequence[Any],
        chunk_size: int = _CHUNK_ROWS,
        what: str = "working",
    ) -> list[Any]:
        """`function(item)` of every item; `Crashed` where no process survived it."""
        self._progress(0, len(items), what)
        return self._pool.map(
            function, items, chunk_size, lambda done: self._progress(done, len(items), what)
        )


def make_pool() -> CarefulPool:
    return CarefulPool(min(available_cores(), _MAX_PROCESSES))


def examine(data: DataSet, pool: CarefulPool, progress: Progress = lambda *_: None) -> Examined:
    """Look at every example of a data set, and refuse nothing: what check-data shows.

    Raises:
        DataError: the data set can't be read at all.
    """
    progress(0, 0, "reading the metadata")
    examples: list[Example] = []
    left_out: list[LeftOut] = []
    for source in data.sources:
        for found in source.read():
            if isinstance(found, Example):
                examples.append(found)
            else:
                left_out.append(found)
    num_rows = len(examples) + len(left_out)
    examples = _without_duplicates(examples, left_out, data.roots)
    survey = data.side.survey(examples, data.roots)
    state = state_to_send(data.task, data.side, data.new)
    looker = Looker(data.task, data.config, data.roots, state)
    results = Pool(pool, progress).map(looker, examples, _CHUNK_ROWS, survey.words)
    kept, seen = [], []
    for example, result in zip(examples, results, strict=True):
        if isinstance(result, Seen):
            kept.append(example)
            seen.append(result)
        elif isinstance(result, Crashed):
            left_out.append(LeftOut.of(example, BAD, result.reason))
        else:
            left_out.append(result)
    left_out.sort(key=lambda entry: (entry.root, entry.metadata, entry.line))
    return Examined(kept, seen, left_out, num_rows, survey)


def _without_duplicates(
    examples: list[Example], left_out: list[LeftOut], roots: tuple[str, ...]
) -> list[Example]:
    """The examples without those whose id an earlier one has; these are left out as bad."""
    homes = [os.path.realpath(root) for root in roots]
    first: dict[tuple[str, str], Example] = {}
    kept = []
    for example in examples:
        earlier = first.setdefault((homes[example.root], example.id), example)
        if earlier is example:
            kept.append(example)
        else:
            where = f"line {earlier.line}"
            if earlier.metadata != example.metadata:
                where += f" of {earlier.metadata}"
            reason = f"its id {example.id} is already that of {where}"
            left_out.append(LeftOut.of(example, BAD, reason))
    return kept


def refuse_unusable(examined: Examined, data: DataConfig, side: DataSide) -> None:
    """End the preparation if there is too little or too much of it that can't be used.

    Raises:
        DataRefused: says which, and the first reasons.
    """
    folder, left_out = data.train_data or "", examined.left_out
    bad = [entry for entry in left_out if entry.kind == BAD]
    reasons = "; ".join(
        f"{entry.metadata} line {entry.line}: {entry.reason}" if entry.line else
        f"{entry.id}: {entry.reason}"
        for entry in (bad or left_out)[:3]
    )  # fmt: skip
    see = side.where_to_see(folder)
    if not examined.num_rows:
        raise DataRefused(side.nothing_found(folder), left_out)
    if not examined.examples:
        raise DataRefused(
            f"{folder}: none of its {examined.num_rows:,} rows can be used ({reasons}).",
            left_out,
            see,
        )
    fraction = len(bad) / examined.num_rows
    if fraction > data.max_bad_fraction:
        enough = -(-100 * len(bad) // examined.num_rows) / 100  # the next hundredth
        raise DataRefused(
            f"{folder}: {len(bad):,} of {examined.num_rows:,} rows are bad ({fraction:.1%}, "
            f"max_bad_fraction is {data.max_bad_fraction:.1%}): {reasons}. Mend them, or allow "
            f"more with --max-bad-fraction {enough:g}.",
            left_out,
            see,
        )
    num_train = sum(example.split != VALIDATION for example in examined.examples)
    if data.val_data and num_train == len(examined.examples):
        raise DataRefused(
            f"{data.val_data}: none of its rows can be used to validate on ({reasons}). Without "
            f"--val-data a part of the training data is held out.",
            left_out,
        )
    if len(examined.examples) < 2 or not num_train:
        raise DataRefused(
            f"{folder}: only {num_train} of its {examined.num_rows:,} rows can be used for "
            f"training, and one more is needed to validate on. Add {side.noun}.",
            left_out,
            see,
        )


def split_of(examples: Sequence[Example], config: Config) -> np.ndarray:
    """Which examples are trained on and which are held out: uint8 (rows,)."""
    split = np.array([example.split or TRAIN for example in examples], np.uint8)
    # An evaluation file of which no row can be used is as good as none.
    decided = VALIDATION in split
    undecided = [n for n, each in enumerate(examples) if each.split is None or not decided]
    if undecided and not config.data.val_data:
        split[undecided] = hold_out(
            [examples[number].id for number in undecided],
            [examples[number].group for number in undecided],
            config.data.val_fraction,
            config.training.seed,
        )
    return split
