"""Every bad command line, configuration, data set and checkpoint of our list: how it ends.

    python benchmarks/bad_inputs.py [--only WORD]

A bad row is left out and named, an impossible run ends with 2, GPUs that are not there with 1;
always in a sentence or two, never with a traceback. Prints a table; exit code 1 when anything ends
otherwise or takes longer than 3 s. Damaged checkpoints and what else goes wrong around a run
follow, with real workers and without that limit (bad_situations.py). Thousands of damages to
checkpoint files are in checkpoint_damage.py, what comes over the wire in fuzz.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import wave
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bad_situations import SITUATIONS

ROOT = Path(__file__).resolve().parent.parent
ALLOWED_S = 3.0
RATE = 22_050
FAKE = ("--fake-gpus", "2")


class Case(NamedTuple):
    """`arguments` of launcher.py, in which {…} are the folders and files that `prepare` makes."""

    name: str
    arguments: str
    code: int
    said: str  # a pattern that the message must match
    prepare: Callable[[Path], object] = lambda folder: None
    looks_at_data: bool = False  # the preparation runs, as a child process


def write_wav(path: Path, seconds: float = 1.0) -> None:
    """A clip of noise that is always the same."""
    samples = bytes((17 * n * n) % 251 for n in range(2 * round(seconds * RATE)))
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(samples)


def make_data(folder: Path, metadata: bytes | str | None = None) -> None:
    """{data}: four clips and their metadata, or others."""
    wavs = folder / "data" / "wavs"
    wavs.mkdir(parents=True)
    for number in range(4):
        write_wav(wavs / f"u{number}.wav")
    if metadata is None:
        metadata = "".join(f"u{number}|Say number {number} now.\n" for number in range(4))
    raw = metadata.encode() if isinstance(metadata, str) else metadata
    (folder / "data" / "metadata.csv").write_bytes(raw)


def with_metadata(metadata: bytes | str) -> Callable[[Path], None]:
    return lambda folder: make_data(folder, metadata)


def with_config(content: bytes | str) -> Callable[[Path], None]:
    """{config}: a TOML file of this content."""

    def write(folder: Path) -> None:
        raw = content.encode() if isinstance(content, str) else content
        (folder / "config.toml").write_bytes(raw)
        make_data(folder)

    return write


def with_lock_on_run(folder: Path) -> object:
    """{run} is in use by another launcher, for as long as the result lives."""
    sys.path.insert(0, str(ROOT))
    from shared.run.directory import RunDirectory

    make_data(folder)
    run = RunDirectory(folder / "run")
    run.create()
    return run.lock("launcher")


def with_port_taken(folder: Path) -> socket.socket:
    """{port} is a TCP port that someone listens on, for as long as the result lives."""
    make_data(folder)
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    (folder / "port").write_text(str(taken.getsockname()[1]))
    return taken


def with_begun_run(folder: Path) -> None:
    """{run} was begun as a tiny model with batches of 4, and has a checkpoint."""
    make_data(folder)
    sys.path.insert(0, str(ROOT))
    from shared.config.settings import Config, DataConfig, TaskConfig
    from shared.config.toml_file import write_config

    run = folder / "run"
    (run / "checkpoints" / "step-00000001").mkdir(parents=True)
    data = DataConfig(train_data=str((folder / "data").resolve()), batch_size=4)
    write_config(Config(data=data, task=TaskConfig(model_size="tiny")), run / "config.toml")
    (run / "index.safetensors").touch()


def with_prepared_run(folder: Path) -> None:
    """{run} is prepared, and nothing was trained."""
    make_data(folder)
    code, output, _ = launch(fill_in(f"{TRAIN} --prepare-only", folder), folder)
    assert code == 0, output


TRAIN = "--train-data {data} --run-dir {run}"
CASES = (
    Case("unknown flag", "--bach-size 3", 2, r"Unknown flag --bach-size\. Did you mean --batch-"),
    Case("no flag at all", "", 2, "no --train-data was given"),
    Case("flag without its value", "--batch-size", 2, "expected one argument"),
    Case("number that is none", "--batch-size many", 2, "'many'; expected auto or a whole number"),
    Case("one GPU flag alone", f"{TRAIN} --fake-gpus 2 --data-gpu 0", 1, "without --model-gpu"),
    Case("the other alone", f"{TRAIN} --fake-gpus 2 --model-gpu 0", 1, "without --data-gpu"),
    Case("equal indices", f"{TRAIN} --fake-gpus 2 --data-gpu 1 --model-gpu 1", 1, "the same GPU"),
    Case("negative index", f"{TRAIN} --fake-gpus 2 --data-gpu -1 --model-gpu 1", 1,
         "Invalid data_gpu=-1, must be 0-1"),
    Case("index that is not there", f"{TRAIN} --fake-gpus 2 --data-gpu 0 --model-gpu 99", 1,
         "Invalid model_gpu=99, must be 0-1"),
    Case("too few GPUs", f"{TRAIN} --fake-gpus 1 --data-gpu 0 --model-gpu 1", 1,
         "requires at least 2 GPUs, found 1"),
    Case("port 0", f"{TRAIN} --endpoint tcp://127.0.0.1:0", 2, "from 1 to 65535", make_data),
    Case("port 65536", f"{TRAIN} --endpoint tcp://127.0.0.1:65536", 2, "from 1 to 65535",
         make_data),
    Case("tcp://* without keys", f"{TRAIN} --endpoint tcp://*:5555", 2, "loopback|keys",
         make_data),
    Case("ipc path of 108 bytes", f"{TRAIN} --endpoint ipc:///{'x' * 107}", 2, "108 bytes long",
         make_data),
    Case("unbracketed IPv6", f"{TRAIN} --endpoint tcp://::1:5555", 2, "in brackets", make_data),
    Case("endpoint of another kind", f"{TRAIN} --endpoint http://x", 2, "expected ipc", make_data),
    Case("port taken", f"{TRAIN} --endpoint tcp://127.0.0.1:{{port}}", 2, "can't listen there",
         with_port_taken),
    Case("run directory in use", TRAIN, 2, "is using this run directory", with_lock_on_run),
    Case("run directory that is a file", "--train-data {data} --run-dir {data}/metadata.csv", 2,
         "can't be made|File exists|Not a directory", make_data),
    Case("resume with another model", f"{TRAIN} --model-size big", 2, "begun with model_size",
         with_begun_run),
    Case("resume with other batches", f"{TRAIN} --batch-size 5", 2, "begun with batch_size",
         with_begun_run),
    Case("deterministic and by the clock", f"{TRAIN} --deterministic --max-minutes 3", 2,
         "max_steps", make_data),
    Case("no such folder", "--train-data {data}/gone --run-dir {run}", 2, "no such folder"),
    Case("speak from no run", "speak --run {run} --text Hi --out {run}.wav", 2, "{run}"),
    Case("speak from an empty folder", "speak --run {run} --text Hi --out {run}.wav", 2,
         "holds no run whose data was looked at", lambda folder: (folder / "run").mkdir()),
    Case("speak without a checkpoint", "speak --run {run} --text Hi --out {run}.wav", 2,
         "no checkpoint", with_prepared_run),
    Case("report of no run", "report {run}", 2, "{run}"),
    Case("empty config", "--config {config} --train-data {data}/gone", 2, "no such folder",
         with_config("")),
    Case("misspelt key", "--config {config}", 2, "unknown key bach_size.*batch_size",
         with_config("[data]\nbach_size = 3\n")),
    Case("wrong type", "--config {config}", 2, "data.batch_size: found 'x'; expected auto or a whole",
         with_config('[data]\nbatch_size = "x"\n')),
    Case("NaN rate", "--config {config}", 2, "learning_rate: found nan; expected a finite",
         with_config("[training]\nlearning_rate = nan\n")),
    Case("batch 0", "--config {config}", 2, "batch_size: found 0; expected .* from 1",
         with_config("[data]\nbatch_size = 0\n")),
    Case("buffer 0", "--config {config}", 2, "buffer_size: found 0; expected .* from 1",
         with_config("[data]\npipeline_buffer_size = 0\n")),
    Case("UTF-16 config", "--config {config}", 2, "not UTF-8",
         with_config("[data]\n".encode("utf-16"))),
    Case("sample rate unlike the data", "--config {config}", 2, "unknown key sample_rate",
         with_config("[data]\nsample_rate = 16000\n")),
    Case("config that is not TOML", "--config {config}", 2, "not valid TOML",
         with_config("[data\n")),
    Case("config that is not there", "--config {config}", 2, "can't be read"),
    Case("metadata of a header only", TRAIN, 2, "no rows", with_metadata("id|text\n"), True),
    Case("empty metadata", TRAIN, 2, "is empty", with_metadata(""), True),
    Case("Latin-1 metadata", TRAIN, 2, r"line 2 is not UTF-8.*iconv",
         with_metadata("u0|One.\nu1|Café.\n".encode("latin-1")), True),
    Case("UTF-16 metadata", TRAIN, 2, "is UTF-16.*iconv",
         with_metadata("u0|One.\n".encode("utf-16")), True),
    Case("metadata without columns", TRAIN, 2, "have no '|'", with_metadata("one\ntwo\n"), True),
    Case("no usable row", TRAIN, 2, "none of its 2 rows can be used",
         with_metadata("gone|One.\n../../etc/passwd|Two.\n"), True),
    Case("too many bad rows", TRAIN, 2, r"1 of 4 rows are bad \(25\.0%",
         with_metadata("u0|One two.\nu1|Two three.\nu2|Three four.\ngone|Four.\n"), True),
    Case("unknown language", f"{TRAIN} --language xx-none", 2, "xx-none", make_data, True),
)  # fmt: skip

GOOD_ROWS = "".join(f"u{number}|Say number {number} now.\n" for number in range(4))
# line -> what is in it, and what the quarantine must say of it (None: nothing, it is used)
ROWS = (
    ("../../etc/passwd|Words here.", "outside the data folder"),
    ("/etc/passwd|Words here.", "outside the data folder"),
    ("link|Words here.", "symbolic link"),
    ("a\0b|Words here.", "NUL"),
    ("fifo|Words here.", "FIFO"),
    ("no column", "1 column; expected"),
    ("u0|The same once more.", "already that of line 1"),
    ("u5|", "text is empty"),
    ("u6|" + "x" * 1_000_000, "characters"),
    ('u7|"An unclosed quote.', None),
    ("u8|Un cafe\u0301 noir.\r", None),
)


def make_bad_rows(folder: Path) -> None:
    make_data(folder, GOOD_ROWS + "".join(f"{row}\n" for row, _ in ROWS))
    wavs = folder / "data" / "wavs"
    for number in range(5, 9):
        write_wav(wavs / f"u{number}.wav")
    (wavs / "link.wav").symlink_to("/etc/passwd")
    os.mkfifo(wavs / "fifo.wav")


def fill_in(arguments: str, folder: Path) -> list[str]:
    port = folder / "port"
    names = {"data": folder / "data", "run": folder / "run", "config": folder / "config.toml",
             "port": port.read_text() if port.exists() else ""}  # fmt: skip
    return [word.format(**names) for word in arguments.split()]


def problems_of(case: Case, folder: Path, code: int, output: str) -> list[str]:
    """In what an ending differs from what it should be."""
    found = []
    if code != case.code:
        found.append(f"exit code {code}, expected {case.code}")
    message = [line for line in output.splitlines() if line.startswith("❌")]
    pattern = case.said.replace("{run}", re.escape(str(folder / "run")))
    if not message or not re.search(pattern, message[0]):
        found.append(f"it does not say {case.said!r}")
    if message and len(message[0]) > 600:
        found.append(f"its message has {len(message[0])} characters")
    if "Traceback" in output:
        found.append("a traceback")
    return found


def unnamed_rows(folder: Path) -> list[str]:
    """Rows of ROWS that the quarantine does not treat as it should."""
    lines = (folder / "run" / "quarantine.jsonl").read_text(encoding="utf-8").splitlines()
    named = {record["line"]: record["reason"] for record in map(json.loads, lines)}
    found = []
    for line, (row, reason) in enumerate(ROWS, start=5):
        said = named.pop(line, None)
        if (reason is None) != (said is None) or (reason and reason not in said):
            found.append(f"line {line} ({row[:20]!r}): {said!r} instead of {reason!r}")
    return found + [f"line {line}: left out without need ({said})" for line, said in named.items()]


def launch(arguments: list[str], folder: Path) -> tuple[int, str, float]:
    """Exit code, output and seconds of one launcher command."""
    environment = {**os.environ, "TANDEM_CACHE": str(folder / "cache"), "TANDEM_FAKE_GPUS": ""}
    started_s = time.monotonic()
    ended = subprocess.run(
        [sys.executable, str(ROOT / "launcher.py"), *arguments], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
        text=True, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout, time.monotonic() - started_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", metavar="WORD", help="cases with this in their name")
    flags = parser.parse_args()
    num_wrong = num_cases = 0
    slowest_s = 0.0
    for case in CASES:
        if flags.only not in case.name:
            continue
        folder = Path(tempfile.mkdtemp(prefix="bad-"))
        held = case.prepare(folder)
        code, output, seconds = launch(fill_in(case.arguments, folder), folder)
        del held
        wrong = problems_of(case, folder, code, output)
        if seconds > ALLOWED_S:
            wrong.append(f"it took {seconds:.1f} s")
        num_cases, num_wrong = num_cases + 1, num_wrong + bool(wrong)
        slowest_s = max(slowest_s, seconds)
        print(f"{'✅' if not wrong else '❌'} {case.name:32} exit {code}  {seconds:4.1f} s  "
              f"{'; '.join(wrong)}")  # fmt: skip
        if wrong:
            print("      " + output.strip()[-600:].replace("\n", "\n      "))
        shutil.rmtree(folder)
    num_situations = 0
    for situation in SITUATIONS:
        if flags.only not in situation.name:
            continue
        folder, started_s = Path(tempfile.mkdtemp(prefix="bad-")), time.monotonic()
        wrong = situation.problems(folder)
        num_situations, num_wrong = num_situations + 1, num_wrong + bool(wrong)
        print(f"{'✅' if not wrong else '❌'} {situation.name:32}         "
              f"{time.monotonic() - started_s:4.1f} s  {'; '.join(wrong)}", flush=True)  # fmt: skip
        shutil.rmtree(folder)
    folder = Path(tempfile.mkdtemp(prefix="bad-"))
    make_bad_rows(folder)
    arguments = fill_in(f"{TRAIN} --prepare-only --max-bad-fraction 1", folder)
    code, output, seconds = launch(arguments, folder)
    wrong = unnamed_rows(folder) if code == 0 else [f"exit code {code}: {output[-600:]}"]
    print(f"{'✅' if not wrong else '❌'} {len(ROWS)} bad or odd rows: left out and named, or used"
          f"  {seconds:.1f} s  {'; '.join(wrong)}")  # fmt: skip
    shutil.rmtree(folder)
    num_wrong += bool(wrong)
    print(f"{num_cases} inputs, {num_situations} situations and {len(ROWS)} rows, {num_wrong} "
          f"wrong; slowest input {slowest_s:.1f} s")  # fmt: skip
    return int(num_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
