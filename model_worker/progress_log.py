"""metrics.jsonl, audit.jsonl and the lines on the terminal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from model_worker.device_prefetch import DeviceBatch
from model_worker.receiver import Receiver
from model_worker.run_logs import JsonLines
from model_worker.train_step import TrainStep
from model_worker.training_state import Position
from shared.cores import BusyMeter
from shared.index import Index
from shared.mel import HOP, SAMPLE_RATE
from shared.plan import FILLER, Plan
from shared.reporting import Reporter
from shared.run_directory import RunDirectory

_SAID_EVERY_S = 10.0


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
        buffer_size: int,
        audit: bool,
        busy: BusyMeter,
        on_record: Callable[[dict[str, Any]], None],
    ):
        self._index = index
        self._plan = plan
        self._receiver = receiver
        self._train_step = train_step
        self._reporter = reporter
        self._buffer_size = buffer_size
        self._on_record = on_record
        self._metrics = JsonLines(run.metrics)
        self._audit = JsonLines(run.audit) if audit else None
        self._busy = busy
        self._step_starts: deque[float] = deque(maxlen=64)
        self._said_s = 0.0
        self._begin_window()

    def _begin_window(self) -> None:
        self._since_s = time.perf_counter()
        self._waited_ms = 0.0
        self._num_batches = 0
        self._real_frames = self._all_frames = 0
        self._data_busy: list[float] = []
        self._model_busy: list[float] = []
        self._timings_ms: dict[str, float] = {}

    def exclude(self, seconds: float) -> None:
        """Leave a validation or a save out of the time that steps took."""
        self._since_s += seconds

    def waited(self, wait_ms: float) -> None:
        self._waited_ms += wait_ms

    def sample_busy(self) -> None:
        share = self._busy.sample()
        if share is not None:
            self._model_busy.append(round(share, 4))
            depth = self._receiver.queue_depth
            self._reporter.tell("busy", share=round(share, 4), queue_depth=depth)

    def step_seconds(self) -> float:
        """Mean wall clock of the last steps, waits included; 0 while it is not known."""
        self._step_starts.append(time.perf_counter())
        # The first intervals hold the compilations; an estimate from them would be far too long.
        times = self._step_starts
        if len(times) < 2:
            return 0.0
        return float(np.median(np.diff(np.asarray(times))))

    def trained(self, batch: DeviceBatch, number: int, skipped: bool) -> None:
        """Note one training batch."""
        arrays = batch.received.arrays
        real = int(arrays["mel_lengths"][arrays["weight"] > 0].sum())
        self._real_frames += real
        self._all_frames += arrays["mel"].shape[0] * arrays["mel"].shape[1]
        self._num_batches += 1
        self._data_busy.append(batch.received.data_busy)
        for name, value in {**batch.received.timings_ms, "device_copy": batch.copy_ms}.items():
            self._timings_ms[name] = self._timings_ms.get(name, 0.0) + value
        if self._audit and not skipped:
            rows = [int(row) for row in arrays["rows"] if row != FILLER]
            self._audit.write(
                {
                    "batch_index": number,
                    "epoch": self._plan.batch(number).epoch,
                    "utterances": [self._index.ids[row] for row in rows],
                    "sha256": batch.sha256,
                }
            )

    def log_step(self, position: Position, rate: float, budget: str) -> None:
        """One line of metrics.jsonl; reads the losses from the device."""
        metrics = self._train_step.read_metrics()
        elapsed_s = max(1e-9, time.perf_counter() - self._since_s)
        batches = max(1, self._num_batches)
        audio_s = self._real_frames * HOP / SAMPLE_RATE
        place = self._plan.layout.place(position.next_batch - 1)
        record: dict[str, Any] = {
            "step": position.step,
            "epoch": place.number // self._plan.batches_per_epoch,
            **{name: round(value, 6) for name, value in metrics.items()},
            "learning_rate": rate,
            "step_ms": round((elapsed_s * 1000 - self._waited_ms) / batches, 3),
            "data_wait_ms": round(self._waited_ms / batches, 3),
            "queue_depth": self._receiver.queue_depth,
            "data_gpu_busy": round(float(np.mean(self._data_busy or [0.0])), 4),
            "model_gpu_busy": self._model_busy,
            "padding_fraction": round(1 - self._real_frames / max(1, self._all_frames), 4),
            "audio_seconds_per_s": round(audio_s / elapsed_s, 2),
            "timings_ms": {n: round(v / batches, 3) for n, v in self._timings_ms.items()},
            "nonfinite_steps": int(self._train_step.num_nonfinite.numpy()),
            "time": round(time.time(), 3),
        }
        self._metrics.write(_finite(record))
        self._metrics.flush()
        self._reporter.tell("metrics", **_finite(record))
        self._on_record(record)
        now_s = time.monotonic()
        if now_s - self._said_s >= _SAID_EVERY_S:
            self._said_s = now_s
            self._reporter.say(
                f"   step {position.step} {budget} · epoch {record['epoch']} · "
                f"loss {record['loss']:.3f} · {batches / elapsed_s:.1f} batches/s · "
                f"queue {record['queue_depth']}/{self._buffer_size} · "
                f"waited {self._waited_ms / elapsed_s / 10:.0f} %"
            )
        self._begin_window()

    def log_validation(self, position: Position, values: dict[str, float]) -> None:
        record = {"step": position.step, **{n: round(v, 6) for n, v in values.items()}}
        self._metrics.write(_finite(record))
        self._metrics.flush()
        self._reporter.tell("metrics", **_finite(record))
        self._on_record(record)
        best = " (best so far)" if position.validations_since_best == 0 else ""
        self._reporter.say(
            f"📏 Validation at step {position.step}: mel error {values['val_mel']:.3f}, "
            f"loss {values['val_loss']:.3f}{best}"
        )

    def flush(self) -> None:
        self._metrics.flush()
        if self._audit:
            self._audit.flush()


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    """The record with None where a number is not finite: JSON has no word for those."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in record.items()
    }
