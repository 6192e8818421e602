"""metrics.jsonl, audit.jsonl and the lines on the terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from model_worker.stream.device_prefetch import DeviceBatch
from model_worker.stream.receiver import Receiver
from model_worker.training.state import Position
from model_worker.training.step import TrainStep
from model_worker.watching.replica_times import ReplicaTimes
from model_worker.watching.step_line import step_line
from model_worker.watching.trained_batch import TrainedBatch
from shared.config.settings import Config
from shared.devices.cores import BusyMeter
from shared.diagnosis.overfitting import FitWatch, Overfitting
from shared.diagnosis.steadiness import steadiness
from shared.diagnosis.trend import trend
from shared.diagnosis.verdict import Measured, Verdict, judge
from shared.diagnosis.wait_attribution import attribute
from shared.plan.index import Index
from shared.plan.plan import Plan
from shared.run.directory import RunDirectory
from shared.run.json_lines import JsonLines, records_of
from shared.run.writer import SupersededError
from shared.stream.messages import NOT_SAID
from shared.task.model_side import ModelSide
from shared.worker.reports import Busy, LineKind, Metrics, Outlook, Reporter

_SAID_EVERY_S = 10.0
_OWN_MS = 0.2  # to take a batch that is there takes time too, and is no waiting
_RECENT_RECORDS = 12  # of the verdict while the run goes on
_BUSY_WINDOWS = 3600  # seconds that the last word on the model GPU is about


@dataclasses.dataclass(frozen=True)
class Budget:
    """How far the run goes, in steps and in seconds from now."""

    total_steps: int
    step_s: float  # median of the last steps; 0 while it is not known
    left_s: float
    by_the_clock: bool = False


class ProgressLog:
    """Collects what happens between two logged steps."""

    def __init__(
        self,
        run: RunDirectory,
        index: Index,
        plan: Plan,
        receiver: Receiver,
        train_step: TrainStep,
        reporter: Reporter,
        config: Config,
        task: ModelSide,
        busy: BusyMeter,
        on_record: Callable[[dict[str, Any]], None],
        may_write: Callable[[], None] = lambda: None,
    ):
        """`may_write` is called before anything is written; it raises where that is over."""
        self._may_write = may_write
        self._index = index
        self._plan = plan
        self._receiver = receiver
        self._train_step = train_step
        self._reporter = reporter
        self._config = config
        self._task = task
        self._on_record = on_record
        self._metrics = JsonLines(run.metrics)
        self._audit = JsonLines(run.audit) if config.run.audit else None
        self._busy = busy
        self._step_times_s: deque[float] = deque(maxlen=64)
        self._last_step_s: float | None = None
        self._said_s = 0.0
        self._measured = Measured()
        self._fit = FitWatch(records_of(run.metrics))
        self._overfitting_was_said = False
        self._windows: deque[float] = deque(maxlen=_BUSY_WINDOWS)
        self._recent: deque[dict[str, Any]] = deque(maxlen=_RECENT_RECORDS)
        self._unwritable = False
        self._begin_window()

    def _begin_window(self) -> None:
        self._since_s = time.perf_counter()
        self._waited_ms = 0.0
        self._num_batches = 0
        self._real_amount = self._padded_amount = 0.0
        self._data_busy: list[float] = []
        self._model_busy: list[float] = []
        self._timings_ms: dict[str, float] = {}
        self._waited_for_ms: dict[str, float] = {}
        self._exchange: dict[str, Any] = {}

    def exclude(self, seconds: float) -> None:
        """Leave a validation or a save out of the time that steps took."""
        self._since_s += seconds

    def waited(self, batch: DeviceBatch, wait_ms: float) -> None:
        """Note that the loop had to wait for a batch, and what for."""
        if wait_ms < _OWN_MS:
            return
        self._waited_ms += wait_ms
        for cause, part_ms in attribute(batch.life(wait_ms)).items():
            self._waited_for_ms[cause] = self._waited_for_ms.get(cause, 0.0) + part_ms

    def sample_busy(self) -> None:
        if not self._busy.sample():
            return
        share = self._busy.rounded_share
        if share is not None:
            self._model_busy.append(share)
            self._windows.append(share)
        depth = self._receiver.queue_depth
        self._reporter.tell(Busy(share, self._busy.memory_mb(), queue_depth=depth))

    def step_seconds(self) -> float:
        """Median wall clock of the last steps, waits included; 0 while it is not known."""
        now_s = time.perf_counter()
        if self._last_step_s is not None:
            self._step_times_s.append(now_s - self._last_step_s)
        self._last_step_s = now_s
        # The first ones hold the compilations; their mean would be far too long.
        return (
            sorted(self._step_times_s)[len(self._step_times_s) // 2] if self._step_times_s else 0.0
        )

    def trained(self, batch: DeviceBatch, number: int, skipped: bool) -> None:
        """Note one training batch."""
        self.note(TrainedBatch.of(batch, number), skipped)

    def note(self, batch: TrainedBatch, skipped: bool = False) -> None:
        """The same, of a batch that another replica may have trained on."""
        self._real_amount += batch.real_amount
        self._padded_amount += batch.padded_amount
        self._num_batches += 1
        if batch.data_busy != NOT_SAID:
            self._data_busy.append(batch.data_busy)
        for name, value in batch.timings_ms.items():
            self._timings_ms[name] = self._timings_ms.get(name, 0.0) + value
        if self._audit and not skipped:
            self._audit.write(
                {
                    "batch_index": batch.number,
                    "epoch": self._plan.batch(batch.number).epoch,
                    "utterances": [self._index.ids[row] for row in batch.rows],
                    "sha256": batch.sha256,
                }
            )

    def note_exchange(self, exchange_ms: float, others: list[ReplicaTimes]) -> None:
        """What adding up with the other replicas took since the last step that was logged."""
        own = max(1, self._num_batches) / (len(others) + 1)
        told = [each.take() for each in others]
        for each in told:
            each["data_wait_ms"] = round(each["data_wait_ms"] / own, 3)
        self._exchange = {"exchange_ms": round(exchange_ms / own, 3), "other_replicas": told}

    def log_step(self, position: Position, rate: float, budget: Budget) -> None:
        """One line of metrics.jsonl; reads the losses from the device."""
        metrics = self._train_step.read_metrics()
        elapsed_s = max(1e-9, time.perf_counter() - self._since_s)
        batches = max(1, self._num_batches)
        own = batches / self._config.data.num_model_replicas  # which this process trained on
        place = self._plan.layout.place(position.next_batch - 1)
        record: dict[str, Any] = {
            "step": position.step,
            "epoch": place.number // self._plan.batches_per_epoch,
            **{n: round(v, 6) if isinstance(v, float) else v for n, v in metrics.items()},
            "learning_rate": rate,
            "step_ms": round((elapsed_s * 1000 - self._waited_ms) / own, 3),
            "data_wait_ms": round(self._waited_ms / own, 3),
            "queue_depth": self._receiver.queue_depth,
            "data_gpu_busy": round(float(np.mean(self._data_busy)), 4) if self._data_busy else None,
            "model_gpu_busy": self._model_busy,
            "model_gpu_memory_mb": self._busy.memory_mb(),
            "padding_fraction": round(1 - self._real_amount / (self._padded_amount or 1.0), 4),
            "amount_per_s": round(self._real_amount / elapsed_s, 2),
            "unit": self._task.unit,
            "timings_ms": {n: round(v / batches, 3) for n, v in self._timings_ms.items()},
            "waited_for_ms": {n: round(v / own, 3) for n, v in self._waited_for_ms.items()},
            **self._exchange,
            "time": round(time.time(), 3),
        }
        self._metrics.write(_finite(record))
        self.flush()
        self._measured.add(record)
        self._fit.add(record)
        self._recent.append(record)
        verdict = judge(Measured(self._recent), self._config)
        outlook = self._outlook(place.number, budget, verdict)
        self._reporter.tell(Metrics(_finite(record), outlook))
        self._on_record(record)
        now_s = time.monotonic()
        if now_s - self._said_s >= _SAID_EVERY_S and budget.step_s and verdict:
            self._said_s = now_s
            losses = [each["loss"] for each in self._recent]
            line = step_line(record, outlook, verdict, trend(losses))
            self._reporter.say(line, LineKind.STEP)
        self._begin_window()

    def _outlook(self, train_batch: int, budget: Budget, verdict: Verdict | None) -> Outlook:
        """What is left of the epoch and of the run, and what it waits for."""
        per_epoch = self._plan.batches_per_epoch
        done = train_batch % per_epoch + 1
        batch_s = budget.step_s / self._config.training.grad_accum
        return Outlook(
            epoch_done=round(done / per_epoch, 4),
            epoch_left_s=round((per_epoch - done) * batch_s, 1),
            total_steps=budget.total_steps,
            total_is_estimate=budget.by_the_clock,
            left_s=round(budget.left_s, 1),
            steps_per_s=round(1 / budget.step_s, 3) if budget.step_s else None,
            verdict=str(verdict or ""),
            is_waiting=bool(verdict and verdict.waiting_for),
            remark=str(self._fit.overfitting or ""),
        )

    def say_verdict(self) -> None:
        """At the end: what the run waited for, as a whole, and how steadily it worked."""
        self._say_overfitting()
        verdict = judge(self._measured, self._config)
        if verdict is None:
            return
        self._reporter.say(f"🧭 {_capitalised(verdict)}")
        if verdict.waiting_for:
            self._reporter.say(f"   {self._measured}")
        steady = steadiness(self._windows)
        if steady is not None:
            self._reporter.say(
                f"   Model side busy {steady.middle:.0%} (median second), p5/p50 {steady.ratio}"
            )

    def log_validation(self, position: Position, values: dict[str, float], judged_by: str) -> None:
        """One line of metrics.jsonl; `judged_by` names the value that says what is best."""
        rounded = {name: round(value, 6) for name, value in values.items()}
        record = {"step": position.step, **rounded, "judged_by": judged_by}
        self._metrics.write(_finite(record))
        self.flush()
        self._reporter.tell(Metrics(_finite(record)))
        self._on_record(record)
        self._fit.add(record)
        best = " (best so far)" if position.validations_since_best == 0 else ""
        judged = f"{self._task.judged_in_words} {values[judged_by]:.3f}"
        if judged_by != "val_loss":
            judged += f", loss {values['val_loss']:.3f}"
        self._reporter.say(f"📏 Validation at step {position.step}: {judged}{best}")
        if not self._overfitting_was_said:
            self._say_overfitting()

    def _say_overfitting(self) -> None:
        found = self._fit.overfitting
        if found is not None:
            self._overfitting_was_said = True
            self._reporter.say(f"📚 {_capitalised(found)}")
            self._reporter.say(f"   {found.advice}")

    def flush(self, durable: bool = False) -> None:
        """Write the logs; what a full disk refuses waits for the next time.

        `durable` before a checkpoint: after a power cut, its logs must reach as far as it does.
        """
        self._may_write()
        try:
            for lines in filter(None, (self._metrics, self._audit)):
                lines.flush(durable)
            self._unwritable = False
        except OSError as error:
            if not self._unwritable:
                self._reporter.say(
                    f"⚠️  The logs of the run can't be written ({error.strerror}); training goes "
                    "on, and they are written when it is possible again"
                )
            self._unwritable = True

    def close(self) -> None:
        """Write what waits, as far as it goes, and close the files."""
        try:
            self.flush()
        except SupersededError:
            return  # they are another's, and closing them would write what waits
        for lines in filter(None, (self._metrics, self._audit)):
            with contextlib.suppress(OSError):  # it has been said
                lines.close()


def _capitalised(finding: Verdict | Overfitting) -> str:
    words = str(finding)
    return f"{words[0].upper()}{words[1:]}"


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    """The record with None where a number is not finite: JSON has no word for those."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in record.items()
    }
