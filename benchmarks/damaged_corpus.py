"""A corpus of which 1 % is damaged in every way we know: the run ends well and names all of it.

    python benchmarks/damaged_corpus.py [--utterances 1900] [--work benchmarks/work/damaged]

Some files are damaged before the data is looked at, others after it, as on a disk that fails
during a run. Files that are only odd (8 to 32 bits, 8 to 96 kHz, an MP3 named wav) must be used.
The run is then trained for one epoch by one data process and again by three: both must end well,
name every damaged utterance and no other, and leave the same audit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fault_runs import ROOT, TINY, read_lines

from data_worker.speech.demo.corpus import make_demo_corpus

RATE = 22_050
SETTINGS = [
    *TINY, "--batch-size", "32", "--max-buckets", "4", "--checkpoint-every", "0",
    "--deterministic", "--audit", "--cache", "off", "--epochs", "1", "--prepare-only",
]  # fmt: skip


def _write(path: Path, samples: np.ndarray, rate: int = RATE, subtype: str = "PCM_16") -> None:
    soundfile.write(path, samples, rate, subtype=subtype, format="WAV")


def _speech(path: Path) -> np.ndarray:
    return soundfile.read(path, dtype="float32")[0]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-999])


def _with_field(offset: int, value: int) -> Callable[[Path], None]:
    """Another number in the header of a wav."""

    def change(path: Path) -> None:
        raw = bytearray(path.read_bytes())
        raw[offset : offset + 4] = struct.pack("<I", value)
        path.write_bytes(raw)

    return change


def _with_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _with_nan(path: Path) -> None:
    samples = _speech(path)
    samples[len(samples) // 2] = np.nan  # where nothing trims it away
    _write(path, samples, subtype="FLOAT")


def _ten_hours(path: Path) -> None:
    """A header that tells the truth about a file full of holes."""
    size = 10 * 3600 * RATE * 2
    header = bytearray(path.read_bytes()[:44])
    header[4:8], header[40:44] = struct.pack("<I", size + 36), struct.pack("<I", size)
    path.write_bytes(header)
    os.truncate(path, size + 44)


BEFORE: dict[str, Callable[[Path], object]] = {
    "zero bytes": lambda path: path.write_bytes(b""),
    "header only": lambda path: path.write_bytes(path.read_bytes()[:44]),
    "truncated": _cut,
    "header claiming 4 GiB": _with_field(40, 2**32 - 1),
    "NaN floats": _with_nan,
    "0 Hz": _with_field(24, 0),
    "64 channels": lambda path: _write(path, np.repeat(_speech(path)[:, None], 64, 1)),
    "silence": lambda path: _write(path, _speech(path) * 0),
    "one sample": lambda path: _write(path, _speech(path)[:1]),
    "10 hours": _ten_hours,
    "deleted": lambda path: path.unlink(),
    "mode 000": lambda path: path.chmod(0),
    "not audio": lambda path: path.write_bytes(b"words " * 999),
}
AFTER: dict[str, Callable[[Path], object]] = {
    "deleted during the run": lambda path: path.unlink(),
    "truncated during the run": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied during the run": lambda path: path.write_bytes(b""),
    "overwritten during the run": lambda path: path.write_bytes(b"words " * 999),
    "NaN during the run": _with_nan,
    "a folder in its place": _with_a_folder,
}
ODD: dict[str, Callable[[Path], object]] = {
    "8 bit": lambda path: _write(path, _speech(path), subtype="PCM_U8"),
    "24 bit": lambda path: _write(path, _speech(path), subtype="PCM_24"),
    "32 bit": lambda path: _write(path, _speech(path), subtype="PCM_32"),
    "8 kHz": lambda path: _write(path, _speech(path)[::3], 8_000),
    "96 kHz": lambda path: _write(path, np.repeat(_speech(path), 4), 96_000),
    "MP3 named wav": lambda path: soundfile.write(path, _speech(path), RATE, format="MP3"),
}


def train_by_hand(run: Path, num_data_workers: int, environment: dict[str, str]) -> int:
    """A model process and its data processes; returns the worst exit code."""

    def start(module: str, log: str) -> subprocess.Popen:
        with open(run / log, "wb") as output:
            return subprocess.Popen([sys.executable, "-m", module, "--run", str(run)], cwd=ROOT,
                                    env=environment, stdout=output, stderr=output)  # fmt: skip

    workers = [start("model_worker", "model.txt")]
    workers += [start("data_worker", f"data-{n}.txt") for n in range(num_data_workers)]
    try:
        return max(abs(worker.wait(1800)) for worker in workers)
    finally:
        for worker in workers:
            worker.kill()


def problems_of(run: Path, damaged: dict[str, str], code: int) -> list[str]:
    """What is wrong with a run over the damaged corpus."""
    found = [] if code == 0 else [f"exit code {code}"]
    named = {Path(record["path"]).stem: record["reason"]
             for record in read_lines(run / "quarantine.jsonl")}  # fmt: skip
    found += [f"{damaged[name]} ({name}) is not named" for name in damaged.keys() - named]
    found += [f"{name} is named without need: {named[name]}" for name in named.keys() - damaged]
    used = {name for record in read_lines(run / "audit.jsonl") for name in record["utterances"]}
    found += [f"{damaged[name]} ({name}) was trained on" for name in used & damaged.keys()]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--utterances", type=int, default=100 * (len(BEFORE) + len(AFTER)))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", default="benchmarks/work/damaged")
    flags = parser.parse_args()
    work = Path(flags.work).resolve()
    shutil.rmtree(work, ignore_errors=True)
    corpus = work / "corpus"
    started_s = time.monotonic()
    make_demo_corpus(corpus, flags.utterances, 2)
    chosen = random.Random(flags.seed).sample(sorted((corpus / "wavs").iterdir()),
                                              len(BEFORE) + len(AFTER) + len(ODD))  # fmt: skip
    kinds = {**BEFORE, **ODD, **AFTER}
    files = dict(zip(kinds, chosen, strict=True))
    for kind in (*BEFORE, *ODD):
        kinds[kind](files[kind])
    (work / "runtime").mkdir()
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(work / "runtime"),
                   "TANDEM_CACHE": str(work / "cache"), "PYTHONPATH": str(ROOT)}  # fmt: skip
    one, three = work / "one", work / "three"
    command = [sys.executable, "launcher.py", "--train-data", str(corpus), "--run-dir", str(one)]
    subprocess.run([*command, *SETTINGS], cwd=ROOT, env=environment, check=True)
    shutil.copytree(one, three)
    for kind in AFTER:
        kinds[kind](files[kind])
    damaged = {files[kind].stem: kind for kind in (*BEFORE, *AFTER)}
    wrong = []
    for run, count in ((one, 1), (three, 3)):
        code = train_by_hand(run, count, environment)
        found = problems_of(run, damaged, code)
        wrong += [f"{count} data processes: {problem}" for problem in found]
    if (one / "audit.jsonl").read_bytes() != (three / "audit.jsonl").read_bytes():
        wrong.append("the audits differ")
    for record in read_lines(one / "quarantine.jsonl"):
        kind = damaged.get(Path(record["path"]).stem, "?")
        print(f"   {kind:28} {json.dumps(record['reason'], ensure_ascii=False)[:100]}")
    print(f"{flags.utterances} utterances, {len(damaged)} damaged ({len(BEFORE)} before the data "
          f"was looked at, {len(AFTER)} after), {len(ODD)} odd; "
          f"{len(read_lines(one / 'audit.jsonl'))} batches; {len(wrong)} problems; "
          f"{time.monotonic() - started_s:.0f} s")  # fmt: skip
    for problem in wrong:
        print(f"   {problem}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
