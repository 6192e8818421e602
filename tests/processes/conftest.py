"""Real processes on fake GPUs: a small corpus, and a way to start, watch and end runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from chromium import PROGRAM, Chromium
from documents import blocks
from ray_hosts import RayHosts

from shared.config.variables import FAKE_GPUS_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
OWN_MODEL = ROOT / "docs" / "own-model.md"
DEADLINE_S = 180


def wait_until(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S):
    """Poll for something another process does, with a deadline; returns what it gave."""
    until_s = time.monotonic() + deadline_s
    pause = threading.Event()
    while time.monotonic() < until_s:
        found = condition()
        if found:
            return found
        pause.wait(0.05)
    raise AssertionError(f"waited {deadline_s} s for {what}")


def _is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended, and that its new parent has yet to reap, does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Command:
    """A command of ours, started and ended by the test."""

    def __init__(
        self, arguments: list[str], output: Path, environment: dict[str, str], cwd: Path = ROOT
    ):
        self.output = output
        with open(output, "wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=cwd,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self.process.pid

    @property
    def text(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {deadline_s} s:\n{self.text}") from None

    def wait_for_text(self, words: str) -> None:
        """Wait until the command has said this."""
        wait_until(lambda: words in self.text, f"{words!r} in\n{self.text}")

    def child(self, module: str, other_than: int | None = None) -> int:
        """The pid of a worker of this launcher, once it runs."""

        def find():
            try:
                children = psutil.Process(self.pid).children()
            except psutil.NoSuchProcess:
                raise AssertionError(f"the launcher has ended:\n{self.text}") from None
            for child in children:
                try:
                    if module in child.cmdline() and child.pid != other_than:
                        return child.pid
                except psutil.Error:
                    continue
            return None

        return wait_until(find, f"a {module} process")


class Runs:
    """Starts commands and, at the end of the test, whatever of them is left is killed by id."""

    wait_until = staticmethod(wait_until)

    # A training run on two fake GPUs, small enough for a test.
    settings = (
        "--fake-gpus", "2", "--data-gpu", "0", "--model-gpu", "1", "--model-size", "tiny",
        "--batch-size", "6", "--max-buckets", "2", "--validate-every", "6",
        "--checkpoint-every", "3", "--log-every", "1", "--model-start-delay", "0.2",
        "--deterministic", "--audit", "--samples", "0", "--no-report",
    )  # fmt: skip

    # Further ones, of a run whose steps have two batches.
    pairs = ("--max-steps", "8", "--batch-size", "3", "--validate-every", "4", "--grad-accum", "2")

    def __init__(self, folder: Path, corpus: Path, cache: Path):
        self.folder = folder
        self.corpus = corpus
        self.environment = {
            "TANDEM_CACHE": str(cache),
            "XDG_RUNTIME_DIR": str(folder),
            "PYTHONPATH": str(ROOT),
        }
        self._commands: list[Command] = []

    def python(self, *arguments: str, **environment: str) -> Command:
        output = self.folder / f"output-{len(self._commands)}.txt"
        command = Command(list(arguments), output, {**self.environment, **environment})
        self._commands.append(command)
        return command

    def documented(self, words: list[str], *more: str, **environment: str) -> Command:
        """A command as a page gives it, with `more` added to it, in a folder like its reader's."""
        program, *arguments = words
        if program == "tandem":
            arguments = ["launcher.py", *arguments]
        output = self.folder / f"output-{len(self._commands)}.txt"
        settings = {**self.environment, FAKE_GPUS_VARIABLE: "2", **environment}
        command = Command([*arguments, *more], output, settings, cwd=self.folder)
        self._commands.append(command)
        return command

    def launch(self, name: str, *flags: str, **environment: str) -> Command:
        """A training run in the folder `name`, or what was begun there gone on with."""
        arguments = ["launcher.py", "--run-dir", str(self.folder / name)]
        if not (self.folder / name / "config.toml").exists():
            arguments += ["--train-data", str(self.corpus), *self.settings]
        return self.python(*arguments, *flags, **environment)

    def finish(self, name: str, *flags: str, **environment: str) -> Command:
        """The same, to its end, which must be a good one."""
        command = self.launch(name, *flags, **environment)
        assert command.wait() == 0, command.text + self.logs(name)
        return command

    def logs(self, name: str) -> str:
        found = sorted((self.folder / name).glob("*.log"))
        return "".join(
            f"\n== {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in found
        )

    def audit(self, name: str) -> bytes:
        return (self.folder / name / "audit.jsonl").read_bytes()

    def metrics(self, name: str) -> list[dict]:
        path = self.folder / name / "metrics.jsonl"
        if not path.exists():
            return []
        lines = path.read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def wait_for_step(self, command: Command, name: str, step: int) -> None:
        def reached():
            assert command.process.poll() is None, command.text + self.logs(name)
            return any(record["step"] >= step for record in self.metrics(name))

        wait_until(reached, f"step {step}")

    def wait_for_log(self, name: str, log: str, words: str) -> None:
        """Until a log of the run holds these words."""
        path = self.folder / name / f"{log}.log"
        wait_until(lambda: path.exists() and words in path.read_text(), f"{words!r} in {log}.log")

    def wait_for_end(self, pids: list[int], deadline_s: float) -> None:
        """Until these processes, which need not be children of the test, have ended."""
        wait_until(lambda: not any(map(_is_alive, pids)), f"the end of {pids}", deadline_s)

    def weights(self, name: str) -> dict[str, str]:
        """SHA-256 of each file of the last checkpoint that holds arrays, from its manifest."""
        last = max((self.folder / name / "checkpoints").glob("step-*"))
        text = (last / "manifest.json").read_text()
        sums = re.findall(r'"([\w.]+\.safetensors)":\s*\{[^}]*?"sha256":\s*"(\w+)"', text)
        assert len(sums) == 4, text
        return {last.name: last.name, **dict(sums)}

    def leftovers(self) -> list[str]:
        """Sockets and temporary files that should not be there any more."""
        found = [p for p in self.folder.rglob("*") if p.is_socket() or p.name.startswith(".tmp-")]
        return [str(path) for path in found]

    def end_all(self) -> None:
        for command in self._commands:
            if command.process.poll() is None:
                command.process.kill()
                command.process.wait()


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    subprocess.run(
        [sys.executable, "-m", "data_worker.speech.demo.corpus", "--out", str(folder), "--num", "40"],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="session")
def index_cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("index-cache")


@pytest.fixture(name="wait_until")
def _wait_until():
    return wait_until


@pytest.fixture(scope="session")
def runs_on(tmp_path_factory, index_cache):
    """Runs on other data, for longer than one test."""
    made: list[Runs] = []

    def make(data: Path) -> Runs:
        made.append(Runs(tmp_path_factory.mktemp("o"), data, index_cache))
        return made[-1]

    yield make
    for runs in made:
        runs.end_all()


@pytest.fixture
def runs(tmp_path_factory, small_corpus, index_cache):
    # A short path: sockets live below it.
    runs = Runs(tmp_path_factory.mktemp("r"), small_corpus, index_cache)
    yield runs
    runs.end_all()


@pytest.fixture
def checkout(runs, small_corpus):
    """A folder as the pages suppose it: the program, its examples, a voice, and one's own model."""
    for name in ("launcher.py", "configs", "examples"):
        (runs.folder / name).symlink_to(ROOT / name)
    (runs.folder / "my-voice").symlink_to(small_corpus)
    (model,) = (code for code in blocks(OWN_MODEL, "python") if 'unit = "clips"' in code)
    (runs.folder / "my_model.py").write_text(model, encoding="utf-8")
    return runs


@pytest.fixture(scope="session")
def in_pairs(tmp_path_factory, small_corpus, index_cache):
    """The same with two batches in each step: what two replicas must equal."""
    runs = Runs(tmp_path_factory.mktemp("p"), small_corpus, index_cache)
    runs.finish("run", *runs.pairs)
    yield runs
    runs.end_all()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory, small_corpus, index_cache):
    """One run to its end that nothing disturbed: what all the others must equal."""
    runs = Runs(tmp_path_factory.mktemp("u"), small_corpus, index_cache)
    runs.finish("run", "--max-steps", "14", "--samples", "2", "--report")
    yield runs
    runs.end_all()


@pytest.fixture(scope="session")
def vocoder(tmp_path_factory, small_corpus, index_cache):
    """The same of a vocoder, whose task has to be named again by whoever goes on with it."""
    runs = Runs(tmp_path_factory.mktemp("v"), small_corpus, index_cache)
    flags = ("--max-steps", "8", "--checkpoint-every", "2", "--samples", "2", "--report")
    runs.finish("run", "--task", "vocoder", *flags)
    yield runs
    runs.end_all()


@pytest.fixture(scope="session")
def ray_hosts():
    """Three hosts of a Ray cluster; whoever has killed one mends it."""
    hosts = RayHosts()
    yield hosts
    hosts.close()


@pytest.fixture(scope="session")  # asked for first, so that nothing is trained for a skip
def chromium(tmp_path_factory):
    if not PROGRAM:
        pytest.skip("Chromium is not installed here (Debian's package is called chromium)")
    with Chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser
