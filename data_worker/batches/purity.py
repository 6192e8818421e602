"""Whether what a task computes of an example hangs on the example alone: all promises rest on that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shared.config.installation import PROGRAM
from shared.task import BatchShape, DataSide, Indexed
from shared.task.users_file import line_of


class PurityLook:
    """Has the first batch of a data process computed once more, and says so if it comes out another.

    `launcher.py validate --task` looks more closely; this one costs a run nothing and needs no
    user to think of it.
    """

    def __init__(self, task: DataSide, say: Callable[[str], None]):
        self._task, self._say = task, say
        self._has_looked = False

    def look(
        self,
        examples: Sequence[Indexed],
        raws: Sequence[Any],
        shape: BatchShape,
        made: Sequence[Any],
    ) -> None:
        """What `features` made of these; they are made again in another order."""
        if self._has_looked:
            return
        self._has_looked = True
        again = self._task.features(raws[::-1], shape)
        for example, one, other in zip(examples, made, list(again)[::-1], strict=False):
            if not same(one, other):
                self._say(
                    f"⚠️  {line_of(self._task.features)}: the result of example {example.id} is "
                    "another when it is made again, so what is trained hangs on which process made "
                    f"it. Randomness belongs in the model; '{PROGRAM} validate --task' looks closer."
                )
                return


def same(one: Any, other: Any) -> bool:
    """Whether two results are equal, bit for bit where they are numbers."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) or hasattr(one, "__array__"):
        ours, theirs = np.asarray(one), np.asarray(other)
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return False
        if ours.dtype.hasobject:
            return same(ours.tolist(), theirs.tolist())
        return ours.tobytes() == theirs.tobytes()
    if hasattr(one, "__dict__"):
        return same(vars(one), vars(other))
    return bool(one == other)
