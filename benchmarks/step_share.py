"""How much of a training step is Python's? A real run on two fake GPUs, sampled from outside.

    python benchmarks/step_share.py [--seconds 30] [--repeats 3] [--batch-size 4]

py-spy looks at the model process two hundred times a second. What TensorFlow does in Python to start
a graph counts as TensorFlow's. Prints the share of the training
thread's time that was inside TensorFlow, waiting for data, and outside of both (goal: below 3 %),
and how many graphs were traced after the first step (goal: none).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_INSIDE = ("(tensorflow/",)  # its kernels, and its own way from Python to them
_WAITING = ("get (model_worker/stream/device_prefetch.py", "_next_batch (")
_TRACING = "_create_concrete_function ("


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=4)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        subprocess.run(
            [sys.executable, "-m", "data_worker.speech.demo.corpus", "--out", str(corpus), "--num", "200"],
            cwd=ROOT, check=True, capture_output=True,
        )  # fmt: skip
        for repeat in range(flags.repeats):
            counts = measure(corpus, Path(folder) / f"run-{repeat}", flags)
            total = sum(counts.values()) - counts["tracing"]
            print(
                f"run {repeat}: {total} samples, inside TensorFlow {counts['inside'] / total:.1%}, "
                f"waiting {counts['waiting'] / total:.1%}, outside {counts['outside'] / total:.1%}, "
                f"tracing {counts['tracing']}",
                flush=True,
            )


def measure(corpus: Path, run: Path, flags: argparse.Namespace) -> Counter:
    """Samples of the training thread of one run, by what it did."""
    launcher = subprocess.Popen(
        [
            sys.executable, "launcher.py", "--train-data", str(corpus), "--run-dir", str(run),
            "--fake-gpus", "2", "--data-gpu", "0", "--model-gpu", "1", "--model-size", "tiny",
            "--batch-size", str(flags.batch_size), "--max-steps", "100000", "--samples", "0",
            "--validate-every", "0", "--no-report", "--no-live",
        ],
        cwd=ROOT, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        metrics = run / "metrics.jsonl"
        while not (metrics.exists() and last_step(metrics) >= 50):
            if launcher.poll() is not None:
                raise SystemExit(f"The run ended with {launcher.returncode}; see {run}.")
            time.sleep(0.2)
        raw = run / "samples.txt"
        subprocess.run(
            [
                py_spy(), "record", "--pid", str(model_process(launcher.pid)), "--rate", "200",
                "--duration", str(flags.seconds), "--format", "raw", "--threads", "--idle",
                "--output", str(raw),
            ],
            check=True, capture_output=True,
        )  # fmt: skip
        return kinds(raw.read_text())
    finally:
        launcher.terminate()
        launcher.wait()


def last_step(metrics: Path) -> int:
    lines = metrics.read_text().splitlines()
    return json.loads(lines[-1])["step"] if lines else 0


def py_spy() -> str:
    """The program, which pip puts beside the interpreter."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("py-spy", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if found is None:
        raise SystemExit("py-spy is not installed; it is part of the 'bench' extra.")
    return found


def model_process(launcher: int) -> int:
    """The id of the launcher's model process."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    for child in children:
        if b"model_worker" in Path(f"/proc/{child}/cmdline").read_bytes():
            return int(child)
    raise SystemExit("The launcher has no model process.")


def kinds(raw: str) -> Counter:
    """Samples of the main thread in py-spy's raw format: frames by semicolons, then a count."""
    counts: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        if "MainThread" not in stack:
            continue
        if _TRACING in stack:
            kind = "tracing"
        elif any(mark in stack for mark in _INSIDE):
            kind = "inside"
        elif any(mark in stack for mark in _WAITING):
            kind = "waiting"
        else:
            kind = "outside"
        counts[kind] += int(count)
    return counts


if __name__ == "__main__":
    main()
