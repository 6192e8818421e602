"""A real run of Tandem on two fake GPUs, watched from outside and stopped when enough was seen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import alterations
import numpy as np
from quiet_windows import (
    PATIENCE,
    WARM_UP_S,
    WINDOW_S,
    Rate,
    Window,
    cpu_seconds_of_others,
    enough,
    quietest,
    share,
)
from workload import ROOT, environment, peak_megabytes, prepare, run_flags

_START_DEADLINE_S = 240.0
_POLL_S = 0.25


class RealRun:
    """`with RealRun(corpus, run) as tandem:` starts it; on leaving it is gone.

    The launcher starts it, unless the environment asks for an altered data side: then the two
    workers are started by hand, the data process through `alterations.py`.
    """

    def __init__(self, corpus: Path, run: Path, *flags: str, data_workers: int = 1):
        self.run = run
        self._corpus = corpus
        self._flags = flags
        self._data_workers = data_workers
        self._children: list[subprocess.Popen] = []

    def __enter__(self) -> Self:
        self.started_s = time.time()
        if os.environ.get(alterations.VARIABLE):
            prepare(self._corpus, self.run, *self._flags)
            self._start([sys.executable, "-m", "model_worker", "--run", str(self.run)])
            script = str(ROOT / "benchmarks" / "alterations.py")
            for number in range(self._data_workers):
                name = f"data_worker-{number}"
                self._start([sys.executable, script, "--run", str(self.run), "--name", name])
        else:
            workers = ("--data-workers", str(self._data_workers))
            self._start([*run_flags(self._corpus, self.run, *self._flags), *workers])
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._children:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._children:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, command: list[str]) -> None:
        log = open(self.run.with_suffix(f".{len(self._children)}.log"), "w")  # noqa: SIM115
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=log, stderr=subprocess.STDOUT
        )
        self._children.append(process)

    def records(self) -> list[dict]:
        """What it has logged of its steps so far."""
        path = self.run / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [record for record in found if "loss" in record]

    def watch(self, seconds: float, warm_up_s: float = WARM_UP_S) -> Rate:
        """Steps per second over the quietest stretches between two logged steps."""
        until_s = time.monotonic() + _START_DEADLINE_S + warm_up_s + PATIENCE * seconds
        looks: list[tuple[float, float]] = []  # time, CPU seconds of others until then
        while time.monotonic() < until_s:
            looks.append((time.time(), cpu_seconds_of_others()))
            records = self.records()
            begun_s = records[0]["time"] + warm_up_s if records else 0.0
            windows = windows_of([r for r in records if r["time"] >= begun_s], looks)
            if windows and enough(windows, seconds):
                return quietest(windows, seconds)
            self._check_alive()
            time.sleep(WINDOW_S)  # more often would take from what is measured
        raise RuntimeError(f"the run in {self.run} was too slow; see its logs")

    def first_step_s(self) -> float:
        """When the first training step began, as time.time() says it."""
        until_s = time.monotonic() + _START_DEADLINE_S
        while time.monotonic() < until_s:
            if records := self.records():
                return records[0]["time"] - records[0]["step_ms"] / 1000
            self._check_alive()
            time.sleep(_POLL_S)
        raise RuntimeError(f"the run in {self.run} did not start; see its logs")

    def _check_alive(self) -> None:
        if any(process.poll() is not None for process in self._children):
            raise RuntimeError(f"the run in {self.run} ended by itself; see its logs")

    def peaks_megabytes(self) -> dict[str, float]:
        """Peak memory of each of its processes, by role."""
        found: dict[str, float] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if str(self.run) not in words:
                    continue
                role = "launcher"
                if "model_worker" in words:
                    role = "model process"
                elif "data_worker" in words or any("alterations" in word for word in words):
                    role = "data process"
                found[role] = max(found.get(role, 0.0), peak_megabytes(int(entry.name)))
            except (FileNotFoundError, ProcessLookupError):
                continue
        return found


def windows_of(records: list[dict], looks: list[tuple[float, float]]) -> list[Window]:
    """The stretches between logged steps, with others' share of the cores in each."""
    if len(records) < 2:
        return []
    times_s = np.array([record["time"] for record in records])
    looked_s, others_until_s = zip(*looks, strict=True)
    others_s = np.interp(times_s, looked_s, others_until_s)
    steps = np.array([record["step"] for record in records])
    return [
        Window(float(count), float(wall_s), share(float(used_s), float(wall_s)))
        for count, wall_s, used_s in zip(
            np.diff(steps), np.diff(times_s), np.diff(others_s), strict=True
        )
    ]
