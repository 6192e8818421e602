"""What goes wrong around a run rather than in its input: each ends as it should, in plain words.

Part of bad_inputs.py; these start real workers on fake GPUs, a few seconds each. One run with two
checkpoints is made once, and each situation with checkpoints damages a copy of it.

Left out: a clock that is set back, which only the whole machine can be (a time namespace has no
clock of the day of its own).
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import safetensors.numpy
from fault_runs import FLAGS, ROOT, make_corpus, read_lines

sys.path.insert(0, str(ROOT))

STOPPED_WITHIN_S = 20.0
DEADLINE_S = 180.0
INTERRUPTED = 130
OLDER, NEWEST = 4, 8  # the steps that the run made for all of them has checkpoints of


class Process:
    """A command of ours in a folder of its own, to be watched and ended."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        within: Sequence[str] = (),
        **environment: str | None,
    ):
        """`within` is a command that runs ours; variables that are None are taken away."""
        self._output = folder / f"output-{len(list(folder.glob('output-*')))}.txt"
        given = {**os.environ, "TANDEM_CACHE": str(folder / "cache"), "XDG_RUNTIME_DIR": str(folder),
                 "PYTHONPATH": str(ROOT), **environment}  # fmt: skip
        with open(self._output, "wb") as output:
            self._process = subprocess.Popen(
                [*within, sys.executable, *arguments], cwd=ROOT,
                env={name: value for name, value in given.items() if value is not None},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
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

    @property
    def pid(self) -> int:
        return self._process.pid

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


@functools.cache
def place_for_all() -> Path:
    """A folder that lives as long as this program."""
    place = Path(tempfile.mkdtemp(prefix="bad-"))
    atexit.register(shutil.rmtree, place)
    return place


def start_run(folder: Path, *flags: str, **settings) -> Process:
    """The launcher, on a run in {folder}/run that is begun or gone on with; see `Process`."""
    run = str(folder / "run")
    if (folder / "run" / "config.toml").exists():
        return Process(folder, "launcher.py", "--run-dir", run, *flags, **settings)
    corpus = folder / "corpus"
    shutil.copytree(make_corpus(place_for_all() / "corpus"), corpus)
    return Process(
        folder, "launcher.py", "--run-dir", run, "--train-data", str(corpus), *FLAGS, *flags,
        **settings,
    )  # fmt: skip


def prepare(folder: Path) -> list[str]:
    return start_run(folder, "--max-steps", "4", "--prepare-only").problems(0)


def start_worker(folder: Path, side: str) -> Process:
    return Process(folder, "-m", f"{side}_worker", "--run", str(folder / "run"))


def second_model_process(folder: Path) -> list[str]:
    """The first one keeps the run; the second is told who has it, before TensorFlow is imported."""
    found = prepare(folder)
    first = start_worker(folder, "model")
    lock = folder / "run" / ".model process.lock"
    # The launcher that prepared the run has left its own number there.
    first.wait_for(lambda: lock.exists() and lock.read_text().strip() == str(first.pid))
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
    return found + other_batches(folder, 4)


def other_batches(folder: Path, num_expected: int) -> list[str]:
    """Whether other batches were trained than the first so many, each once and in order."""
    trained = [line["batch_index"] for line in read_lines(folder / "run" / "audit.jsonl")]
    return [] if trained == list(range(num_expected)) else [f"it trained batches {trained}"]


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
    found += start_run(folder, "--max-steps", "34").problems(0, "Continuing", "Finished")
    audit = read_lines(folder / "run" / "audit.jsonl")
    before = {name for line in audit[:15] for name in line["utterances"]}
    after = {name for line in audit[-15:] for name in line["utterances"]}
    return found if after == before else [*found, f"trained: {before}, then {after}"]


@functools.cache
def begun_run() -> Path:
    """The folder of a run with two checkpoints."""
    folder = place_for_all() / "begun"
    folder.mkdir()
    # Without a validation none is kept as the best, which would be a third, as new as the newest.
    flags = ["--max-steps", str(NEWEST), "--val-fraction", "0"]
    if found := start_run(folder, *flags).problems(0, "Finished"):
        raise RuntimeError(f"the run that all begin with failed: {'; '.join(found)}")
    return folder


def copy_begun(folder: Path) -> Path:
    """{folder}/run is a copy of it; returns its newest checkpoint."""
    shutil.copytree(begun_run() / "run", folder / "run")
    return folder / "run" / "checkpoints" / f"step-{NEWEST:08d}"


def older_is_used(
    folder: Path, damage: Callable[[Path], object], said: str, num_more: int
) -> list[str]:
    """The newest checkpoint is passed over with a message, and the stream goes on unchanged.

    With `num_more` 0 it is seen where it would go on, which takes half of the time.
    """
    newest, steps = copy_begun(folder), OLDER + num_more
    damage(newest)
    words = [f"{newest} is passed over: ", said] if said else []
    words += [f"Continuing from step {OLDER} ", "Finished"]
    found = start_run(folder, "--max-steps", str(steps)).problems(0, *words)
    trained, undisturbed = (
        read_lines(each / "run" / "audit.jsonl")[:steps] for each in (folder, begun_run())
    )
    return found + other_batches(folder, steps) + (
        [] if trained == undisturbed else ["its batches are others than those of the first run"]
    )  # fmt: skip


def refused(
    folder: Path, code: int, said: str, change: Callable[[Path], object], *flags: str
) -> list[str]:
    """The run ends in a sentence, and what is there stays as it is."""
    newest = copy_begun(folder)
    change(newest)
    checkpoints = newest.parent
    before = {path: path.stat().st_mtime_ns for path in checkpoints.rglob("*")}
    found = start_run(folder, "--max-steps", str(OLDER + 2), *flags).problems(code, "❌", said)
    after = {path: path.stat().st_mtime_ns for path in checkpoints.rglob("*")}
    return found if after == before else [*found, "the checkpoints were touched"]


def flip_bit(file: Path) -> None:
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 4
    file.write_bytes(raw)


def damage_all(newest: Path) -> None:
    for file in newest.parent.glob("*/*.safetensors"):
        flip_bit(file)


def write_manifest(checkpoint: Path, **changes: object) -> None:
    """Give it a manifest whose sums, its own among them, are right."""

    def canonical(value: dict) -> bytes:
        return json.dumps(value, sort_keys=True, indent=1).encode() + b"\n"

    manifest = {**json.loads((checkpoint / "manifest.json").read_bytes()), **changes}
    del manifest["sha256"]
    for name, entry in manifest["files"].items():
        raw = (checkpoint / name).read_bytes()
        entry |= {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    own = hashlib.sha256(canonical(manifest)).hexdigest()
    (checkpoint / "manifest.json").write_bytes(canonical({**manifest, "sha256": own}))


def put_nan(newest: Path) -> None:
    weights = safetensors.numpy.load_file(newest / "weights.safetensors")
    name = min(weights)
    weights[name] = np.full_like(weights[name], np.nan)
    safetensors.numpy.save_file(weights, newest / "weights.safetensors")
    write_manifest(newest)


def change_symbols(newest: Path) -> None:
    """Give the run the index of another preparation, which knows one symbol more."""
    from shared.plan.index import Index

    path = newest.parent.parent / "index.safetensors"
    index = Index.load(path)
    facts = {**index.facts, "symbol_table": [*index.symbol_table, "☃"]}
    dataclasses.replace(index, facts=facts, fingerprint="").save(path)


def change_model(newest: Path) -> None:
    """Make it a run of another model size, to which someone has copied these checkpoints."""
    config = newest.parent.parent / "config.toml"
    tiny = 'model_size = "tiny"'
    text = config.read_text(encoding="utf-8")
    assert tiny in text
    config.write_text(text.replace(tiny, 'model_size = "small"'), encoding="utf-8")


def speak_from_damaged(folder: Path) -> list[str]:
    damage_all(copy_begun(folder))
    words = ["--run", str(folder / "run"), "--text", "Hi.", "--out", str(folder / "hi.wav")]
    return Process(folder, "launcher.py", "speak", *words).problems(
        1, "❌ None of the 2 checkpoints in"
    )


def read_only_checkpoints(folder: Path) -> list[str]:
    """Nothing can be saved: it says so, and does not call itself finished.

    A folder without the right to write would not stop root, so it is mounted read-only, in a
    namespace of the run's own.
    """
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode:
        print("   left out: this machine does not let us mount anything (unshare -Urm)")
        return []
    place = copy_begun(folder).parent
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    within = ["unshare", "-Urm", "sh", "-c", mount, str(place)]
    run = start_run(folder, "--max-steps", str(NEWEST + 1), within=within)
    return run.problems(1, "Read-only file system", "another --run-dir", "could not be saved")


def small_run(folder: Path, **settings) -> list[str]:
    """A whole run, from looking at the data to its last checkpoint."""
    found = start_run(folder, "--max-steps", "2", **settings).problems(0)
    log = folder / "run" / "launcher.log"
    if "Finished" not in (log.read_text(encoding="utf-8") if log.exists() else ""):
        found.append("launcher.log does not say 'Finished'")
    return found + other_batches(folder, 2)


def shell(command: str) -> list[str]:
    """A command around ours, which is its "$@"."""
    return ["sh", "-c", command, "sh"]


def deleted_audio(folder: Path) -> list[str]:
    """It costs one utterance, from one batch on, although batches with it are under way."""
    run = start_run(folder, "--max-steps", "40", "--cache", "off", "--buffer-size", "4",
                    "--max-bad-fraction", "0.2")  # fmt: skip
    audit, quarantine = (folder / "run" / f"{name}.jsonl" for name in ("audit", "quarantine"))
    run.wait_for(lambda: read_lines(audit))
    gone = read_lines(audit)[0]["utterances"][0]
    (folder / "corpus" / "wavs" / f"{gone}.wav").unlink()
    found = run.problems(0, f"Left out {gone}", "Finished") + other_batches(folder, 40)
    left_out = read_lines(quarantine)
    if {record["id"] for record in left_out} != {gone}:
        return [*found, f"left out: {left_out}, expected {gone}"]
    first = min(record["from_batch"] for record in left_out)
    found += [
        f"batch {line['batch_index']} has {gone}"
        for line in read_lines(audit)
        if gone in line["utterances"] and line["batch_index"] >= first
    ]
    names = {name for line in read_lines(audit)[-16:] for name in line["utterances"]}
    others = {name for line in read_lines(audit)[:8] for name in line["utterances"]} - {gone}
    return found if names == others else [*found, f"no longer trained: {others - names}"]


def narrow_view(folder: Path) -> list[str]:
    """The live view in 20 columns: nothing is cut off."""
    from rich.console import Console

    from shared.console.live_view import LiveView
    from shared.status.status_keeper import StatusKeeper
    from shared.worker.reports import Busy, Metrics, Outlook

    terminal = io.StringIO()
    console = Console(file=terminal, width=20, height=60, color_system=None)
    keeper = StatusKeeper(50, time.time())
    record = {"step": 120, "loss": 1.5, "step_ms": 90.0, "queue_depth": 34, "epoch": 3}
    outlook = Outlook(0.45, 60.0, 0, False, 60.0, None, "waiting for: decoding", True)
    for worker in ("data_worker-0", "model_worker"):
        keeper.report(worker, Busy(0.8, memory_mb=640))
    keeper.report("model_worker", Metrics(record, outlook))
    console.print(LiveView(keeper.status(), console=console).panel())
    lines = terminal.getvalue().splitlines()
    words = " ".join(line.strip("│ ") for line in lines)
    expected = ("data GPU", "model GPU", "80 %", "34/50", "step 120", "loss 1.500", "decoding")
    return [f"it lacks {part!r}: {lines}" for part in expected if part not in words] + [
        f"a line of {len(line)} columns: {line}" for line in lines if len(line) > 20
    ]


class Situation(NamedTuple):
    """`problems(folder)` brings it about in an empty folder; in what it ended otherwise."""

    name: str
    problems: Callable[[Path], list[str]]
    always_tested: bool = False  # by `make test`; the others by its long version


def _older(name: str, damage: Callable, said: str, num_more: int = 0, always: bool = False):
    return Situation(name, lambda folder: older_is_used(folder, damage, said, num_more), always)


def _refused(name: str, code: int, said: str, change: Callable, *flags: str, always: bool = False):
    return Situation(name, lambda folder: refused(folder, code, said, change, *flags), always)


SITUATIONS = (
    Situation("second model process", second_model_process),
    Situation("resume without a checkpoint", resume_without_checkpoint),
    Situation("data process without its peer", lambda folder: worker_without_peer(
        folder, "data", "waiting for the model process at")),
    Situation("model process without its peer", lambda folder: worker_without_peer(
        folder, "model", "waiting for a data process at")),
    Situation("metadata edited during the run", edited_metadata),
    _older("manifest missing", lambda newest: (newest / "manifest.json").unlink(), "no manifest"),
    _older("manifest of zero length", lambda newest: (newest / "manifest.json").write_bytes(b""),
           "manifest.json is damaged"),
    _older("weights missing", lambda newest: (newest / "weights.safetensors").unlink(),
           "weights.safetensors is missing"),
    _older("weights of zero length", lambda newest: (newest / "ema.safetensors").write_bytes(b""),
           "ema.safetensors has 0 bytes instead of"),
    _older("flipped bit", lambda newest: flip_bit(newest / "weights.safetensors"),
           "its SHA-256 differs", always=True),
    _older("NaN weights with the right sums", put_nan, "holds NaN or infinity", num_more=2),
    _older("checkpoint of a newer format", lambda newest: write_manifest(newest, format_version=2),
           "a newer Tandem wrote it"),
    _older("newest step deleted", shutil.rmtree, "", num_more=2),
    _refused("all checkpoints damaged", 1, "None of the 2 checkpoints in", damage_all, always=True),
    _refused("begun with another model size", 2, "was begun with model_size = 'tiny'",
             lambda newest: None, "--model-size", "small", always=True),
    _refused("checkpoints of another model", 1, "its model size differs", change_model),
    _refused("changed symbol table", 1, "its index differs", change_symbols),
    _refused("damaged index", 2, "is not a usable index",
             lambda newest: flip_bit(newest.parent.parent / "index.safetensors")),
    Situation("speak from damaged checkpoints", speak_from_damaged),
    Situation("read-only checkpoints", read_only_checkpoints),
    Situation("32 open files", lambda folder: small_run(
        folder, within=shell('ulimit -n 32 && exec "$@"'))),
    Situation("LANG=C", lambda folder: small_run(folder, LANG="C", LC_ALL="C")),
    Situation("no HOME", lambda folder: small_run(folder, HOME=None)),
    Situation("stdout closed", lambda folder: small_run(
        folder, within=shell('exec "$@" >&-')), True),
    Situation("live view of 20 columns", narrow_view, True),
    Situation("audio deleted during the run", deleted_audio),
)  # fmt: skip
