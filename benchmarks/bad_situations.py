"""What goes wrong around a run rather than in its input: each ends as it should, in plain words.

Part of bad_inputs.py; these start real workers on fake GPUs, a few seconds each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fault_runs import FLAGS, ROOT, make_corpus, read_lines

STOPPED_WITHIN_S = 20.0
DEADLINE_S = 180.0
INTERRUPTED = 130


class Process:
    """A command of ours in a folder of its own, to be watched and ended."""

    def __init__(self, folder: Path, *arguments: str):
        self._output = folder / f"output-{len(list(folder.glob('output-*')))}.txt"
        environment = {**os.environ, "TANDEM_CACHE": str(folder / "cache"),
                       "XDG_RUNTIME_DIR": str(folder), "PYTHONPATH": str(ROOT)}  # fmt: skip
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments], cwd=ROOT, env=environment, stdout=output,
                stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    @property
    def text(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, condition: Callable[[], object]) -> bool:
        """Whether it came to be before the process or our patience ended."""
        pause, until_s = threading.Event(), time.monotonic() + DEADLINE_S
        while not condition():
            if self._process.poll() is not None or time.monotonic() > until_s:
                return False
            pause.wait(0.05)
        return True

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self, deadline_s: float = DEADLINE_S) -> int | str:
        """The exit code, or that there was none in time."""
        try:
            return self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return f"none within {deadline_s:.0f} s"

    def problems(self, code: int, *said: str, deadline_s: float = DEADLINE_S) -> list[str]:
        """In what its end differs from this exit code and these words, without a traceback."""
        found = []
        if (ended := self.end(deadline_s)) != code:
            found.append(f"exit code {ended}, expected {code}")
        found += [f"it does not say {words!r}" for words in said if words not in self.text]
        if "Traceback" in self.text:
            found.append("a traceback")
        return [*found, f"output: {self.text[-600:]}"] if found else []


def start_run(folder: Path, *flags: str) -> Process:
    """The launcher, on a run in {folder}/run that is begun or gone on with."""
    run = str(folder / "run")
    if (folder / "run" / "config.toml").exists():
        return Process(folder, "launcher.py", "--run-dir", run, *flags)
    corpus = make_corpus(folder / "corpus")
    return Process(
        folder, "launcher.py", "--run-dir", run, "--train-data", str(corpus), *FLAGS, *flags
    )


def prepare(folder: Path) -> list[str]:
    return start_run(folder, "--max-steps", "4", "--prepare-only").problems(0)


def start_worker(folder: Path, side: str) -> Process:
    return Process(folder, "-m", f"{side}_worker", "--run", str(folder / "run"))


def second_model_process(folder: Path) -> list[str]:
    """The first one keeps the run; the second is told who has it, before TensorFlow is imported."""
    found = prepare(folder)
    first = start_worker(folder, "model")
    lock = folder / "run" / ".model process.lock"
    first.wait_for(lambda: lock.exists() and lock.read_text())
    started_s = time.monotonic()
    second = start_worker(folder, "model")
    found += second.problems(2, "another model process (pid")
    if (took_s := time.monotonic() - started_s) > 3.0:
        found.append(f"it took {took_s:.1f} s")
    first.signal(signal.SIGTERM)
    return found + first.problems(INTERRUPTED, deadline_s=STOPPED_WITHIN_S)


def resume_without_checkpoint(folder: Path) -> list[str]:
    """Nothing was trained yet: the same command begins at the first step."""
    found = prepare(folder)
    found += start_run(folder).problems(0, "Finished")
    steps = [line["batch_index"] for line in read_lines(folder / "run" / "audit.jsonl")]
    return found if steps == list(range(4)) else [*found, f"it trained batches {steps}"]


def worker_without_peer(folder: Path, side: str, waits_for: str) -> list[str]:
    """It says what it waits for, and ends when it is told to."""
    found = prepare(folder)
    worker = start_worker(folder, side)
    worker.wait_for(lambda: waits_for in worker.text)
    worker.signal(signal.SIGTERM)
    return found + worker.problems(INTERRUPTED, waits_for, deadline_s=STOPPED_WITHIN_S)


def edited_metadata(folder: Path) -> list[str]:
    """A run that has begun goes by its own index, now and when it is gone on with."""
    run = start_run(folder, "--max-steps", "30")
    run.wait_for(lambda: read_lines(folder / "run" / "metrics.jsonl"))
    metadata = folder / "corpus" / "metadata.csv"
    lines = metadata.read_text(encoding="utf-8").splitlines()
    metadata.write_text("\n".join(["gone|Nobody said this.", *lines[:3], "no column"]) + "\n")
    found = run.problems(0, "Finished")
    found += start_run(folder, "--max-steps", "34").problems(0, "Going on with", "Finished")
    audit = read_lines(folder / "run" / "audit.jsonl")
    before = {name for line in audit[:15] for name in line["utterances"]}
    after = {name for line in audit[-15:] for name in line["utterances"]}
    return found if after == before else [*found, f"trained: {before}, then {after}"]


class Situation(NamedTuple):
    """`problems(folder)` brings it about in an empty folder; in what it ended otherwise."""

    name: str
    problems: Callable[[Path], list[str]]


SITUATIONS = (
    Situation("second model process", second_model_process),
    Situation("resume without a checkpoint", resume_without_checkpoint),
    Situation("data process without its peer", lambda folder: worker_without_peer(
        folder, "data", "waiting for the model process at")),
    Situation("model process without its peer", lambda folder: worker_without_peer(
        folder, "model", "waiting for a data process at")),
    Situation("metadata edited during the run", edited_metadata),
)  # fmt: skip
