"""The measurements of `bench`: real runs of the launcher's workers, for a while each."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from shared.config.settings import Config, TrainingConfig
from shared.config.toml_file import write_config
from shared.devices.gpus import Placement
from shared.diagnosis.pace import WARM_UP_BATCHES_PER_SHAPE, WARM_UP_SHARE
from shared.errors import TandemError
from shared.launching.batch_size import with_batch_size
from shared.launching.preparation_child import prepare_run
from shared.launching.training_run import Say, TrainingRun
from shared.run.directory import RunDirectory
from shared.run.resume import with_absolute_paths
from shared.worker.contract import EXIT_INTERRUPTED
from shared.worker.preparation_lines import Prepared
from shared.worker.reports import Metrics, Pace, Report

# Never to an end of its own: no validation, no save, epochs for weeks.
_ENDLESS = TrainingConfig(epochs=1_000_000, validate_every=0, checkpoint_every=0, log_every=5)


PARTS_IN_WORDS = {
    "sequential": "batch and step in turns", "data": "batches alone", "model": "steps alone",
}  # fmt: skip


class BenchRun:
    """One placement of the two processes on one data set."""

    def __init__(self, config: Config, placement: Placement, folder: Path):
        """`folder` becomes the run directory."""
        self._placement = placement
        run = dataclasses.replace(
            config.run, run_dir=str(folder), run_id=f"bench-{secrets.token_hex(8)}", samples=0,
            endpoint=None, keys=None,
        )  # fmt: skip
        self._config = dataclasses.replace(with_absolute_paths(config), training=_ENDLESS, run=run)
        self._directory = RunDirectory(folder)
        self._directory.create()
        write_config(self._config, self._directory.config)

    @property
    def batch_size(self) -> int:
        """Found out by `prepare`, where it was to be."""
        return self._config.data.batch_size

    def prepare(self, say: Callable[[str], None]) -> Prepared:
        """Look at the data; returns what the preparation found."""
        found = prepare_run(self._directory, say, live=True, task=self._config.run.task)
        gpu = self._placement.model_gpu
        self._config = with_batch_size(self._config, self._directory, gpu, say)
        write_config(self._config, self._directory.config)
        return found

    def parts(
        self, what: tuple[str, ...], seconds: float, on_pace: Callable[[str, dict], None]
    ) -> dict[str, dict]:
        """The pace of each of `what` (sequential, data, model), measured one after the other.

        `on_pace` is told each when it is known.
        """
        paces: dict[str, dict] = {}

        def take(worker: str, report: Report) -> None:
            if isinstance(report, Pace):
                paces[report.what] = report.measured
                on_pace(report.what, report.measured)

        command = ("model_worker.checks.pace_check", "--seconds", str(seconds), "--what", *what)
        self._run(lambda: TrainingRun(*self._start(), take, command))
        missing = [
            PARTS_IN_WORDS[name] for name in what if not paces.get(name, {}).get("batches_per_s")
        ]
        if missing:
            raise TandemError(
                f"{seconds:g} s were too short to measure {', '.join(missing)}. Give more with "
                "--seconds."
            )
        return paces

    def mode(self, seconds: float) -> dict:
        """The pace of training as a user would train."""
        shapes = self._config.data.max_buckets
        watch = StepWatch(seconds, WARM_UP_BATCHES_PER_SHAPE * shapes)

        def take(worker: str, report: Report) -> None:
            if watch.take(report):
                run.stop()

        run = TrainingRun(*self._start(), take)
        self._run(lambda: run, watch)
        pace = watch.pace()
        if not pace["batches_per_s"]:
            raise TandemError(
                f"{seconds:g} s were too short to measure the training. Give more with --seconds."
            )
        return pace

    def _start(self) -> tuple[Config, RunDirectory, Placement, Say, float]:
        said = open(self._directory.launcher_log, "a", encoding="utf-8")  # noqa: SIM115
        return (
            self._config, self._directory, self._placement,
            lambda text, kind=None: print(text, file=said, flush=True), time.time(),
        )  # fmt: skip

    def _run(self, make: Callable[[], TrainingRun], watch: StepWatch | None = None) -> None:
        result = make().watch()
        if result.exit_code == EXIT_INTERRUPTED and not (watch and watch.is_over):
            raise KeyboardInterrupt
        if result.exit_code not in (0, EXIT_INTERRUPTED):
            raise TandemError(f"{result.cause}\n   Logs: {result.run_dir}")


class StepWatch:
    """Follows the logged steps of a run: a warm-up, then so many seconds that count."""

    def __init__(self, seconds: float, warm_up_batches: int):
        self._seconds = seconds
        self._warm_up_batches = warm_up_batches
        self._warm_up_s = seconds * WARM_UP_SHARE
        self._first_s: float | None = None
        self._before: dict | None = None  # the record at whose end the measurement begins
        self._records: list[dict] = []

    @property
    def is_over(self) -> bool:
        if self._before is None or not self._records:
            return False
        return self._records[-1]["time"] - self._before["time"] >= self._seconds

    def take(self, report: Report) -> bool:
        """Take in what a worker tells; True when it was enough."""
        if not isinstance(report, Metrics) or report.outlook is None or self.is_over:
            return False
        record = report.record
        if self._first_s is None:
            self._first_s = record["time"]
        if self._before is not None:
            self._records.append(record)
        elif self._is_warm(record):
            self._before = record
        return self.is_over

    def _is_warm(self, record: dict) -> bool:
        passed_s = record["time"] - self._first_s
        return passed_s >= self._warm_up_s and record["step"] >= self._warm_up_batches

    def pace(self) -> dict:
        """What was measured. What only came out of a queue that was full before does not count."""
        assert self._before is not None  # whoever asks has seen that it is over
        first, last = self._before, self._records[-1]
        num_batches = last["step"] - first["step"]
        seconds = last["time"] - first["time"]
        from_queue = max(0, first["queue_depth"] - last["queue_depth"])
        sustained = max(0, num_batches - from_queue) / num_batches
        amount, waited_ms, before = 0.0, 0.0, first
        for record in self._records:
            batches = record["step"] - before["step"]
            passed_s = (record["step_ms"] + record["data_wait_ms"]) * batches / 1000
            amount += record["amount_per_s"] * passed_s
            waited_ms += record["data_wait_ms"] * batches
            before = record
        return {
            "batches_per_s": num_batches * sustained / seconds,
            "amount_per_s": amount * sustained / seconds,
            "unit": last["unit"],
            "seconds": seconds,
            "waited_fraction": min(1.0, waited_ms / 1000 / seconds),
            "model_gpu_busy": [s for record in self._records for s in record["model_gpu_busy"]],
        }
