"""Does the model side's busy share dip? A real run on two fake GPUs, in one-second windows.

    python benchmarks/oscillation.py [--seconds 60] [--repeats 3]

Prints the 5th percentile and the median of the model side's busy share and their ratio (goal: at
least 0.9). Windows before the first step are start-up and left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    flags = parser.parse_args()
    print(f"{'run':>4} {'windows':>8} {'p5':>6} {'p50':>6} {'p5/p50':>7} {'waited %':>9}")
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        subprocess.run(
            [sys.executable, "-m", "data_worker.demo_corpus", "--out", str(corpus), "--num", "400"],
            cwd=ROOT, check=True, capture_output=True,
        )  # fmt: skip
        for repeat in range(flags.repeats):
            windows, waited = measure(corpus, Path(folder) / f"run-{repeat}", flags.seconds)
            low, middle = np.percentile(windows, [5, 50])
            print(
                f"{repeat:>4} {len(windows):>8} {low:6.3f} {middle:6.3f} {low / middle:7.3f} "
                f"{100 * waited:9.2f}",
                flush=True,
            )


def measure(corpus: Path, run: Path, seconds: float) -> tuple[list[float], float]:
    """Busy shares of the one-second windows of a run, and the share of time it waited."""
    subprocess.run(
        [
            sys.executable, "launcher.py", "--train-data", str(corpus), "--run-dir", str(run),
            "--fake-gpus", "2", "--data-gpu", "0", "--model-gpu", "1", "--model-size", "tiny",
            "--batch-size", "16", "--max-minutes", str((seconds + 25) / 60), "--no-live",
        ],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    records = [record for record in records if "loss" in record][1:]
    windows = [share for record in records for share in record["model_gpu_busy"]]
    waited = sum(r["data_wait_ms"] for r in records)
    worked = sum(r["step_ms"] for r in records)
    return windows, waited / (waited + worked)


if __name__ == "__main__":
    main()
