"""What a batch of a task looks like: its arrays as they are declared, and their exact shapes.

The data process makes batches of this form, the model process holds every arrival against it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np

# The engine's own arrays, in every batch: how much a row counts (0 for a filler), and which row of
# the index it is (-1 for a filler).
WEIGHT, ROWS = "weight", "rows"
# What a batch may be on its way, the rows among the dimensions.
DTYPES = ("float32", "float16", "int32", "int64", "int16", "uint8")
MAX_ARRAYS, MAX_DIMENSIONS, MAX_NAME = 32, 4, 64


@dataclasses.dataclass(frozen=True, init=False)
class Array:
    """One array of a batch: its dtype, and its dimensions behind the rows.

    A dimension is a number, or the name of one of the task's lengths: then each batch is as long
    there as its bucket, and what an example leaves free is `padding`.
    """

    dtype: str
    dimensions: tuple[str | int, ...]
    padding: float

    def __init__(self, dtype: str, *dimensions: str | int, padding: float = 0):
        object.__setattr__(self, "dtype", np.dtype(dtype).name)
        object.__setattr__(self, "dimensions", dimensions)
        object.__setattr__(self, "padding", padding)


_ENGINES_OWN = {WEIGHT: Array("float32"), ROWS: Array("int32", padding=-1)}


class BatchForm:
    """The part of a task's data side that both processes must know. Compared by identity."""

    def __init__(
        self,
        arrays: Mapping[str, Array],
        lengths: tuple[str, ...] = (),
        companion: str | None = None,
        group_column: str = "group",
    ):
        self.arrays = {**arrays, **_ENGINES_OWN}
        self.lengths = lengths
        self.has_companions = companion is not None
        self.group_column = group_column

    def problem(self) -> str:
        """What is declared and can't be, in words; empty where there is nothing."""
        own = self.arrays.keys() - _ENGINES_OWN.keys()
        if not own:
            return "arrays is empty"
        if len(self.arrays) > MAX_ARRAYS:
            return f"there are {len(own)} arrays; at most {MAX_ARRAYS - len(_ENGINES_OWN)} can be"
        if not isinstance(self.lengths, tuple) or len(set(self.lengths)) != len(self.lengths):
            return f"lengths is {self.lengths!r}; expected a tuple of different names"
        for name in own:
            problem = self._problem_of(name, self.arrays[name])
            if problem:
                return f"array {name!r} {problem}"
        return ""

    def _problem_of(self, name: str, array: Array) -> str:
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            return f"needs a name of 1 to {MAX_NAME} characters"
        if not isinstance(array, Array):
            return f"is {type(array).__name__}; expected shared.task.Array"
        if array.dtype not in DTYPES:
            return f"is {array.dtype}; expected one of {', '.join(DTYPES)}"
        if len(array.dimensions) >= MAX_DIMENSIONS:
            return f"has {len(array.dimensions)} dimensions; at most {MAX_DIMENSIONS - 1} can be"
        for dimension in array.dimensions:
            if isinstance(dimension, str):
                if dimension not in self.lengths:
                    return f"is as long as {dimension!r}, which is none of the lengths"
            elif not isinstance(dimension, int) or dimension < 1:
                return f"has the dimension {dimension!r}; expected a length's name or a number ≥ 1"
        try:
            np.full(1, array.padding, array.dtype)
        except (OverflowError, TypeError, ValueError):
            return f"has the padding {array.padding!r}, which is no {array.dtype}"
        return ""

    def signature(self) -> dict[str, tuple[str, tuple[int | None, ...]]]:
        """Each array's dtype and shape in any batch: None for what differs between batches."""
        return {
            name: (a.dtype, (None, *(d if isinstance(d, int) else None for d in a.dimensions)))
            for name, a in self.arrays.items()
        }


@dataclasses.dataclass(frozen=True)
class BatchShape:
    """The shape of every batch of one bucket: `shape["frames"]` is the bound of that length."""

    rows: int
    lengths: tuple[int, ...]  # in the order of the form's
    form: BatchForm

    def __getitem__(self, length: str) -> int:
        names = self.form.lengths
        if length not in names:
            raise KeyError(f"there is no length {length!r}, only {', '.join(names) or 'none'}")
        return self.lengths[names.index(length)]

    def arrays(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name, dtype and shape of each array of such a batch, in the order they are sent."""
        bounds = dict(zip(self.form.lengths, self.lengths, strict=True))
        return {
            name: (
                array.dtype,
                (self.rows, *(d if isinstance(d, int) else bounds[d] for d in array.dimensions)),
            )
            for name, array in self.form.arrays.items()
        }

    @cached_property
    def nbytes(self) -> int:
        """Exact bytes of the arrays of one batch."""
        sizes = self.arrays().values()
        return sum(np.dtype(dtype).itemsize * math.prod(shape) for dtype, shape in sizes)
