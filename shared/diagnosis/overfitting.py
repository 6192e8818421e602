"""Whether a run learns its examples by heart: the training loss falls, the validation stands.

Pure: records of metrics.jsonl in, a finding out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from shared.run.record_numbers import finite_number

_VALIDATIONS = 3  # in a row without a better one; two may be noise
_FEWEST_LOSSES = 4  # to know their noise
_CLEARLY = 2.0  # standard errors that the training loss must have fallen by


@dataclasses.dataclass(frozen=True)
class Overfitting:
    """`best_step` is where the validation was best, `num_validations` how many came after it."""

    best_step: int
    num_validations: int

    def __str__(self) -> str:
        return (
            f"overfitting: no better validation since step {self.best_step} "
            f"({self.num_validations} in a row), while the training loss falls"
        )

    @property
    def advice(self) -> str:
        """What helps, as far as flags do."""
        return (
            "The best checkpoint is kept. What helps: more data, "
            f"--max-steps {self.best_step}, --early-stopping {_VALIDATIONS}"
        )


@dataclasses.dataclass(frozen=True)
class _Interval:
    """What is known at a validation, of the steps before it too."""

    step: int
    judged: float
    mean_loss: float
    error: float  # of that mean


class FitWatch:
    """Follows a run by its records, of which it keeps four numbers for each validation."""

    def __init__(self, records: Iterable[dict[str, Any]] = ()):
        self._losses: list[float] = []
        self._intervals: list[_Interval] = []
        for record in records:
            self.add(record)

    def add(self, record: dict[str, Any]) -> None:
        """One record of metrics.jsonl, in their order."""
        judged_by = record.get("judged_by", "val_loss")
        judged = finite_number(record, judged_by if isinstance(judged_by, str) else "val_loss")
        step = finite_number(record, "step")
        if judged is None:
            loss = finite_number(record, "loss")
            if loss is not None and "step_ms" in record:
                self._losses.append(loss)
            return
        if step is None:
            return
        # After a roll-back, what it undid has not happened.
        self._intervals = [each for each in self._intervals if each.step < step]
        if len(self._losses) >= _FEWEST_LOSSES:
            losses = np.array(self._losses)
            mean, error = float(losses.mean()), float(losses.std()) / len(losses) ** 0.5
            self._losses.clear()
        elif self._intervals:  # what was known counts until there are more
            mean, error = self._intervals[-1].mean_loss, self._intervals[-1].error
        else:
            mean = error = math.nan
        self._intervals.append(_Interval(int(step), judged, mean, error))

    @property
    def overfitting(self) -> Overfitting | None:
        """What is found by now; None where the run still gains, or stands as a whole."""
        if not self._intervals:
            return None
        best_at, best = min(enumerate(self._intervals), key=lambda each: each[1].judged)
        since = len(self._intervals) - 1 - best_at
        if since < _VALIDATIONS:
            return None
        now = self._intervals[-1]
        noise = math.hypot(best.error, now.error)
        has_fallen = best.mean_loss - now.mean_loss > _CLEARLY * noise  # not if one is not known
        return Overfitting(best.step, since) if has_fallen else None
