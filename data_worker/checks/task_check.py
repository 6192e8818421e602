"""`python -m data_worker.checks.task_check`: the data half's part in `launcher.py validate --task`.

Makes batches of a prepared run as a data process would, again and in other company, and holds them
against each other. The last of them are left for the model half's part.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from data_worker.assembly import Assembly
from data_worker.batches.batch_filler import BatchFiller
from data_worker.batches.cache import NoCache
from data_worker.batches.purity import same
from data_worker.batches.reading import make_loader
from shared.errors import ReadError, TaskError
from shared.plan.index import Index
from shared.plan.plan import FILLER, BatchPlan
from shared.plan.plan_of_run import example_of_row
from shared.task import Companion
from shared.task.users_file import line_in_stack, line_of
from shared.worker.checking import check_main, passed
from shared.worker.start import fix_gpu, open_run, start_tensorflow, worker_parser

_MOST_ROWS_ALONE = 4
_MOST_BATCHES = 3


def main() -> int:
    return check_main(_work)


def _work() -> None:
    parser = worker_parser("python -m data_worker.checks.task_check", "--connect")
    parser.add_argument("--batches", required=True, type=Path, help="folder to leave batches in")
    parser.add_argument("--patience", type=float, help="seconds that one read may take")
    flags = parser.parse_all(sys.argv[1:])
    run, config = open_run(flags)
    device_kind = fix_gpu("data", flags, config)
    start_tensorflow("data", device_kind, config)
    parts = Assembly.of_run(run.path, config, Index.load(run.index), device_kind)
    look_at_data_half(parts, flags.patience, flags.batches)


def look_at_data_half(parts: Assembly, patience_s: float | None, batches: Path) -> None:
    """All that is looked at; the first batches are left in a folder for the model half's part.

    Raises:
        TaskError: something is not as it must be. Other exceptions are the task's own.
    """
    trial = _DataTrial(parts, patience_s)
    plan = trial.parts.plan.batch(0)
    trial.look_at_reading(plan)
    passed("read", f"{trial.num_read} examples, each twice the same")
    trial.look_at_shapes(plan)
    trial.look_at_purity(plan)
    passed("features", "the same in another order and alone")
    batches.mkdir(parents=True, exist_ok=True)
    end = trial.parts.plan.layout.num_stream_batches or _MOST_BATCHES
    for n in range(min(_MOST_BATCHES, end)):
        arrays = trial.made(trial.parts.plan.batch(n))
        safetensors.numpy.save_file(dict(arrays), batches / f"{n}.safetensors")
    shown = ", ".join(f"{n} {a.dtype}{list(a.shape)}" for n, a in arrays.items())
    passed("row", f"batches of {shown}")


class _DataTrial:
    """The methods of a data half, called as the engine calls them."""

    def __init__(self, parts: Assembly, patience_s: float | None):
        self.parts = parts
        self.num_read = 0
        self._task = parts.task
        self._patience_s = patience_s or parts.task.patience_s or 60.0
        self._example_of = example_of_row(parts.config, parts.index)
        self._load = make_loader(parts.task, self._example_of, {})
        self._filler = BatchFiller(parts.task, self._example_of, NoCache())
        self._raws: dict[int, Any] = {}

    def read(self, row: int) -> Any:
        """What `read` returns of a row.

        Raises:
            TaskError: it fails, or does not come back.
        """
        results: list[Any] = []

        def read() -> None:
            try:
                results.append(self._load(row, lambda: None))
            except Exception as error:
                results.append(error)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(self._patience_s)
        if not results:
            frame = sys._current_frames().get(thread.ident or 0)
            line = line_in_stack(traceback.extract_stack(frame)) if frame else ""
            raise TaskError(
                f"{line}reading example {self._example_of(row).id} did not come back within "
                f"{self._patience_s:g} s."
            )
        if isinstance(results[0], ReadError):
            raise TaskError(str(results[0]))
        if isinstance(results[0], Exception):
            raise results[0]
        self.num_read += 1
        return results[0]

    def look_at_reading(self, plan: BatchPlan) -> None:
        rows = {*plan.rows.tolist(), *plan.companions.tolist()} - {FILLER}
        for row in sorted(rows):
            raw, again = self.read(row), self.read(row)
            self.num_read -= 1
            if not same(raw, again):
                self._say_impure("read", row, "read a second time")
            self._raws[row] = raw

    def look_at_shapes(self, plan: BatchPlan) -> None:
        self.made(plan)

    def made(self, plan: BatchPlan) -> dict[str, np.ndarray]:
        """A whole batch, nothing of it known before."""
        for row in {*plan.rows.tolist(), *plan.companions.tolist()} - {FILLER} - self._raws.keys():
            self._raws[row] = self.read(row)
        return self._filler.fill(plan, {}, dict(self._raws))

    def look_at_purity(self, plan: BatchPlan) -> None:
        """Features, companions and rows of the batch, again, in another order and alone."""
        rows = [row for row in plan.rows.tolist() if row != FILLER]
        few = rows[:_MOST_ROWS_ALONE]
        shape = plan.shape

        def features(chosen: Sequence[int]) -> list[Any]:
            return list(self._task.features([self._raws[row] for row in chosen], shape))

        self._compare("features", features, rows, few)
        companion_of, offset_of = (
            _by_row(plan, plan.companions),
            _by_row(plan, plan.companion_offsets),
        )
        if plan.shape.form.has_companions:

            def companions(chosen: Sequence[int]) -> list[Any]:
                others = [int(companion_of[row]) for row in chosen]
                wanted = [
                    Companion(
                        self._example_of(other), None, self._raws[other], float(offset_of[row])
                    )
                    for row, other in zip(chosen, others, strict=True)
                ]
                return list(self._task.companions(wanted, shape))

            self._compare("companions", companions, rows, few)
        whole = self.made(plan)
        again = self.made(plan)
        self._compare_batches("made a second time", plan, whole, plan, again)
        order = np.arange(len(plan.rows))[::-1]
        turned = dataclasses.replace(
            plan,
            rows=plan.rows[order],
            companions=plan.companions[order],
            companion_offsets=plan.companion_offsets[order],
            draws=plan.draws[order],
        )
        self._compare_batches("in another order", plan, whole, turned, self.made(turned))
        for row in few:
            alone = _alone(plan, row)
            self._compare_batches("alone", plan, whole, alone, self.made(alone))

    def _compare(
        self,
        method: str,
        made_of: Callable[[Sequence[int]], list[Any]],
        rows: list[int],
        few: list[int],
    ) -> None:
        first = dict(zip(rows, made_of(rows), strict=True))
        tries = [("made a second time", rows), ("in another order", rows[::-1])]
        tries += [("alone", [row]) for row in few]
        for words, chosen in tries:
            for row, each in zip(chosen, made_of(chosen), strict=True):
                if not same(first[row], each):
                    self._say_impure(method, row, words)

    def _compare_batches(
        self,
        words: str,
        plan: BatchPlan,
        whole: dict[str, np.ndarray],
        other_plan: BatchPlan,
        other: dict[str, np.ndarray],
    ) -> None:
        slot_of = {row: slot for slot, row in enumerate(plan.rows.tolist()) if row != FILLER}
        for slot, row in enumerate(other_plan.rows.tolist()):
            if row == FILLER:
                continue
            for name, array in other.items():
                if array[slot].tobytes() != whole[name][slot_of[row]].tobytes():
                    self._say_impure("row", row, words, name)

    def _say_impure(self, method: str, row: int, words: str, array: str = "") -> None:
        what = f"array {array}" if array else "the result"
        raise TaskError(
            f"{line_of(getattr(self._task, method))}: {what} of example "
            f"{self._example_of(row).id} is another {words}. It must depend on the example alone: no "
            "random numbers, no clock, nothing of the other examples of its batch. In row(), "
            "random numbers follow from example.draw."
        )


def _by_row(plan: BatchPlan, values: np.ndarray) -> dict[int, Any]:
    return dict(zip(plan.rows.tolist(), values.tolist(), strict=True))


def _alone(plan: BatchPlan, row: int) -> BatchPlan:
    """The batch with one row of it in its first place, fillers in all others."""
    slot = int(np.flatnonzero(plan.rows == row)[0])
    rows, companions = np.full_like(plan.rows, FILLER), np.full_like(plan.companions, FILLER)
    offsets = np.zeros_like(plan.companion_offsets)
    rows[0], companions[0] = row, plan.companions[slot]
    offsets[0] = plan.companion_offsets[slot]
    draws = np.zeros_like(plan.draws)
    draws[0] = plan.draws[slot]
    return dataclasses.replace(
        plan, rows=rows, companions=companions, companion_offsets=offsets, draws=draws
    )


if __name__ == "__main__":
    sys.exit(main())
