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

    def watch(self, seconds: float, warm_up_s: float = 4.0) -> list[dict]:
        """The records of so many seconds, those of the warm-up after the first step left out."""
        until_s = time.monotonic() + _START_DEADLINE_S + warm_up_s + seconds
        while time.monotonic() < until_s:
            records = self.records()
            if records and records[-1]["time"] - records[0]["time"] >= warm_up_s + seconds:
                return [r for r in records if r["time"] - records[0]["time"] >= warm_up_s]
            if any(process.poll() is not None for process in self._children):
                raise RuntimeError(f"the run in {self.run} ended by itself; see its logs")
            time.sleep(_POLL_S)
        raise RuntimeError(f"the run in {self.run} was too slow; see its logs")

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


def steps_per_second(records: list[dict]) -> float:
    first, last = records[0], records[-1]
    return (last["step"] - first["step"]) / (last["time"] - first["time"])
