"""A real run on fake GPUs, started and watched from outside: its workers and its remains."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYER = Path(__file__).resolve().parent / "fault_layer"
# Tiny, so that a life of a process costs little more than importing TensorFlow.
TINY = (
    "--fake-gpus", "2", "--data-gpu", "0", "--model-gpu", "1", "--model-size", "tiny",
    "--model-start-delay", "0", "--validate-every", "0", "--samples", "0", "--no-report",
)  # fmt: skip
FLAGS = [
    *TINY, "--batch-size", "2", "--max-buckets", "1", "--checkpoint-every", "4", "--log-every", "1",
    "--deterministic", "--audit", "--no-live", "--max-restarts", "100000",
]  # fmt: skip


def make_corpus(folder: Path, num: int = 16) -> Path:
    """A few spoken sentences of two voices, made once."""
    if not (folder / "metadata.csv").exists():
        command = [sys.executable, "-m", "data_worker.speech.demo.corpus", "--out", str(folder)]
        subprocess.run([*command, "--num", str(num), "--voices", "2"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    return folder


@dataclasses.dataclass
class Life:
    """One process of a worker, from when it was first seen."""

    worker: str
    pid: int
    seen_s: float
    # Its first batch is there, it has saved for the first time, or it is a spare that stands by.
    ready_s: float | None = None


class Run:
    """A launcher and its workers."""

    def __init__(
        self,
        folder: Path,
        corpus: Path,
        work: Path,
        *flags: str,
        settings: Sequence[str] = FLAGS,
        cache: Path | None = None,
    ):
        """Starts it; a folder that holds a run already is gone on with."""
        self.folder = folder
        self.control = work / "disk-faults"
        self.runtime = work / "runtime"
        self.runtime.mkdir(exist_ok=True)
        self.cache = cache or work / "cache"
        arguments = ["--run-dir", str(folder)]
        if not (folder / "config.toml").exists():
            arguments += ["--train-data", str(corpus), *settings]
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "output.txt", "ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "launcher.py", *arguments, *flags],
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_hear_signals,
            )
        self.started_s = time.monotonic()
        self.lives: dict[str, Life] = {}
        self.every_pid: set[int] = {self.process.pid}
        self._tails = {"model_worker": _Tail(folder / "model_worker.log")}

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "XDG_RUNTIME_DIR": str(self.runtime),
            "TANDEM_CACHE": str(self.cache),
            "TANDEM_DISK_FAULTS": str(self.control),
            "PYTHONPATH": str(LAYER),
        }

    @property
    def text(self) -> str:
        return (self.folder / "output.txt").read_text(encoding="utf-8", errors="replace")

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def look(self) -> None:
        """Notice new processes, and those that have got to work."""
        children = children_of(self.process.pid)
        self.every_pid.update(children, *map(children_of, children))
        names = {pid: worker_name(pid) for pid in children}
        now = {name: pid for pid, name in names.items() if name is not None}
        self.lives = {name: life for name, life in self.lives.items() if now.get(name) == life.pid}
        for worker, pid in now.items():
            if worker not in self.lives:
                self.lives[worker] = Life(worker, pid, time.monotonic())
                if worker.startswith("data_spare"):
                    tail = self._tails.setdefault(worker, _Tail(self.folder / f"{worker}.log"))
                    tail.new_text()  # what the spare before it said last
        received = self._tails["model_worker"].new_text()
        for worker, life in self.lives.items():
            if worker.startswith("data_spare"):
                is_ready = "standing by" in self._tails[worker].new_text()
            elif worker == "model_worker":
                is_ready = ": saved " in received
            else:
                is_ready = f"first batch of data process {worker} (pid {life.pid})" in received
            if is_ready and life.ready_s is None:
                life.ready_s = time.monotonic()

    def lives_of(self, role: str) -> list[Life]:
        return [life for name, life in self.lives.items() if name.startswith(role)]

    def signal(self, pid: int, number: signal.Signals) -> bool:
        """Send a signal to a process of this run; False when it has ended."""
        assert pid in self.every_pid
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def stop_process(self, pid: int, deadline_s: float = 1.0) -> bool:
        """Stop a process of this run; whether it has stopped, so that nothing changes any more.

        A call to the kernel that it is in is finished first.
        """
        if not self.signal(pid, signal.SIGSTOP):
            return False
        until_s = time.monotonic() + deadline_s
        while not self.is_stopped(pid):
            if time.monotonic() > until_s:
                return False
            time.sleep(0.0005)
        return True

    def is_stopped(self, pid: int) -> bool:
        """Whether no thread of the process runs."""
        try:
            threads = os.listdir(f"/proc/{pid}/task")
            return all(_state(f"/proc/{pid}/task/{thread}") == "T" for thread in threads)
        except OSError:
            return False

    def saving_now(self) -> bool:
        """Whether a checkpoint is being written, or an old one removed, by a process that lives.

        What a killed one left behind has that one's pid in its name.
        """
        ends = tuple(f"-{life.pid}" for life in self.lives_of("model_worker"))
        try:
            names = os.listdir(self.folder / "checkpoints")
        except FileNotFoundError:
            return False
        return any(name.startswith(".tmp-") and name.endswith(ends) for name in names)

    def end(self) -> None:
        """Kill what is left of it."""
        if not self.is_over:
            self.process.kill()
            self.process.wait()

    def remains(self, deadline_s: float = 2.0) -> list[str]:
        """Processes, sockets and temporary files that should be gone by now."""
        until_s = time.monotonic() + deadline_s
        while (alive := [pid for pid in self.every_pid if _is_alive(pid)]) and (
            time.monotonic() < until_s
        ):
            time.sleep(0.02)
        found = [f"process {pid}" for pid in alive]
        for base in (self.folder, self.runtime, self.cache):
            for path in base.rglob("*"):
                if path.is_socket() or maker_of(path.name) in self.every_pid:
                    found.append(str(path))
        return found


def _hear_signals() -> None:
    """A shell's background and nohup have them ignored; a person's terminal does not."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class _Tail:
    """What is new in a log."""

    def __init__(self, path: Path):
        self._path, self._offset = path, 0

    def new_text(self) -> str:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return ""
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.decode("utf-8", "replace")


def children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def worker_name(pid: int) -> str | None:
    """The worker that a process is now, by the log it writes to; None of any other process.

    Not by its command line: a spare goes on under the name of the worker it takes over for.
    """
    try:
        log = Path(os.readlink(f"/proc/{pid}/fd/1"))
    except OSError:
        return None
    is_worker = log.name.startswith(("data_worker-", "data_spare-", "model_worker"))
    return log.stem if log.suffix == ".log" and is_worker else None


def maker_of(name: str) -> int | None:
    """The process whose temporary file has this name; None of any other file.

    Checkpoints in the making and records of readings end in it; what is written beside its place
    (configuration, index, quarantine, samples, report) has a random word after it at times.
    """
    found = re.fullmatch(r"\.(?:tmp-.*-|reading-|.+\.)(\d+)(?:\.[0-9a-f]{8})?", name)
    return int(found[1]) if found else None


def _state(process: str) -> str:
    return Path(process, "stat").read_text().rpartition(")")[2].split()[0]


def _is_alive(pid: int) -> bool:
    try:
        return _state(f"/proc/{pid}") != "Z"
    except OSError:
        return False


def read_lines(path: Path) -> list[dict]:
    """The whole lines of a JSON-lines file."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]
