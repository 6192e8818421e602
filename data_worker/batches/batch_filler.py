"""One batch's arrays from what was read: features, companions, and a row for each example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from data_worker.batches.cache import FeatureCache, as_arrays
from data_worker.batches.purity import PurityLook
from shared.errors import TaskError
from shared.plan.plan import FILLER, BatchPlan
from shared.stream.array_block import ArrayBlock
from shared.task import Array, Companion, DataSide, Indexed
from shared.task.batch import ROWS, WEIGHT
from shared.task.users_file import line_of


class BatchFiller:
    """Has the task compute what is missing, and writes what it makes into the batch."""

    def __init__(
        self,
        task: DataSide,
        example_of: Callable[[int], Indexed],
        cache: FeatureCache,
        purity: PurityLook | None = None,
    ):
        """`purity` looks at the first features that are made, where nobody has proved the task."""
        self._purity = purity
        self.task = task
        self._example_of = example_of
        self.cache = cache

    def fill(
        self,
        plan: BatchPlan,
        features: dict[int, Any],
        raws: dict[int, Any],
        take_memory: Callable[[int], np.ndarray | None] = lambda num_bytes: None,
    ) -> dict[str, np.ndarray]:
        """The batch's arrays. For each row, either its features are known or it has been read.

        `take_memory(num_bytes)` gives memory for them, where there is a better place.

        Raises:
            TaskError: the task returned what does not fit its own declaration.
        """
        shape = plan.shape
        arrays = ArrayBlock(shape.arrays(), take_memory)
        declared = shape.form.arrays
        for name, array in arrays.items():
            array.fill(declared[name].padding)
        arrays[ROWS][:] = plan.rows
        self._compute_missing(plan, features, raws)
        companions = self._companions(plan, features, raws)
        for slot, row in enumerate(plan.rows.tolist()):
            if row != FILLER:
                example = self._example_of(row).in_batch(int(plan.draws[slot]))
                parts = self.task.row(example, features[row], companions.get(slot))
                self._write(arrays, slot, parts, declared, example)
                arrays[WEIGHT][slot] = 1.0
        return arrays

    def _compute_missing(
        self, plan: BatchPlan, features: dict[int, Any], raws: dict[int, Any]
    ) -> None:
        """Features of the batch's own examples that were not cached, all in one call."""
        missing = [row for row in plan.rows.tolist() if row != FILLER and row not in features]
        if not missing:
            return
        wanted = [raws[row] for row in missing]
        made = self.task.features(wanted, plan.shape)
        self._check_count("features", len(missing), made)
        if self._purity is not None:
            self._purity.look(list(map(self._example_of, missing)), wanted, plan.shape, made)
        for row, each in zip(missing, made, strict=True):
            try:
                features[row] = as_arrays(each)
            except TypeError as error:
                raise TaskError(
                    f"{line_of(self.task.features)}: {error}; expected an array of numbers, or a "
                    "dictionary of such arrays."
                ) from None
            self.cache.put(row, features[row])

    def _companions(
        self, plan: BatchPlan, features: dict[int, Any], raws: dict[int, Any]
    ) -> dict[int, Any]:
        """What the task makes of each slot's companion."""
        slots = [slot for slot, row in enumerate(plan.companions.tolist()) if row != FILLER]
        wanted = []
        for slot in slots:
            row = int(plan.companions[slot])
            offset = float(plan.companion_offsets[slot])
            known = features.get(row)
            raw = raws.get(row) if known is None else None
            wanted.append(Companion(self._example_of(row), known, raw, offset))
        if not wanted:
            return {}
        made = self.task.companions(wanted, plan.shape)
        self._check_count("companions", len(wanted), made)
        return dict(zip(slots, made, strict=True))

    def _check_count(self, method: str, wanted: int, made: Sequence[Any]) -> None:
        if not hasattr(made, "__len__"):
            raise TaskError(
                f"{line_of(getattr(self.task, method))}: it returned {type(made).__name__}. "
                f"Return a list with one entry for each of the examples."
            )
        if len(made) != wanted:
            raise TaskError(
                f"{line_of(getattr(self.task, method))}: it returned {len(made)} results for "
                f"{wanted} examples. Return one for each, in the same order."
            )

    def _write(
        self,
        arrays: dict[str, np.ndarray],
        slot: int,
        parts: dict[str, Any],
        declared: dict[str, Array],
        example: Indexed,
    ) -> None:
        own = declared.keys() - {ROWS, WEIGHT}
        if not isinstance(parts, dict):
            raise TaskError(
                f"{line_of(self.task.row)}: it returned {type(parts).__name__}; expected a "
                f"dictionary with the arrays {', '.join(sorted(own))}."
            )
        if parts.keys() != own:
            wrong = sorted(map(str, own ^ parts.keys()))
            raise TaskError(
                f"{line_of(self.task.row)}: it returned the arrays "
                f"{', '.join(sorted(map(str, parts)))}; declared are {', '.join(sorted(own))} "
                f"(differing: {', '.join(wrong)})."
            )
        for name, value in parts.items():
            target = arrays[name][slot]
            try:
                value = np.asarray(value)
                problem = _misfit(value, target, declared[name])
            except ValueError:
                problem = "is no array: its parts differ in size"
            if problem:
                raise TaskError(
                    f"{line_of(self.task.row)}: array {name} of example {example.id} {problem}."
                )
            part: tuple[int | slice, ...] = (slot, *(slice(size) for size in value.shape))
            arrays[name][part] = value


def _misfit(value: np.ndarray, target: np.ndarray, declared: Array) -> str:
    """What is wrong with one example's part of an array; empty where it fits."""
    if not np.can_cast(value.dtype, target.dtype, "same_kind"):
        return f"is {value.dtype}; declared is {declared.dtype}"
    if value.ndim != target.ndim:
        return f"has the shape {value.shape}; declared is {_in_words(declared)}"
    for found, bound, dimension in zip(value.shape, target.shape, declared.dimensions, strict=True):
        if found > bound or (found != bound and isinstance(dimension, int)):
            longest = f", at most {target.shape} here" if target.shape else ""
            return f"has the shape {value.shape}; declared is {_in_words(declared)}{longest}"
    return ""


def _in_words(declared: Array) -> str:
    return f"({', '.join(map(str, declared.dimensions))})"
