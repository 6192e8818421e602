"""Does the model side's busy share dip? A real run on two fake GPUs, in one-second windows.

    python benchmarks/oscillation.py [--seconds 60] [--repeats 3]

The 5th percentile and the median of the model side's busy share and their ratio (goal: at least
0.9). Windows before the first step are start-up and left out. Of the peers, a sequential loop and
tf.data with prefetch (see overlap.py), busy is the share of a window that was spent in the step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import overlap
import results
import workload
from results import Line

GOAL = 0.9
PEERS = ("sequential", "tf.data")


def measure(corpus: Path, run: Path, seconds: float) -> tuple[list[float], float]:
    """Busy shares of the one-second windows of a run, and the share of time it waited."""
    subprocess.run(
        [
            sys.executable, "launcher.py", "--train-data", str(corpus), "--run-dir", str(run),
            "--fake-gpus", "2", "--data-gpu", "0", "--model-gpu", "1", "--model-size", "tiny",
            "--batch-size", "16", "--max-minutes", str((seconds + 25) / 60), "--no-live",
        ],
        cwd=workload.ROOT, env=workload.environment(), check=True, capture_output=True,
    )  # fmt: skip
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    records = [record for record in records if "loss" in record][1:]
    windows = [share for record in records for share in record["model_gpu_busy"]]
    waited = sum(r["data_wait_ms"] for r in records)
    worked = sum(r["step_ms"] for r in records)
    return windows, waited / (waited + worked)


def measure_peer(kind: str, run: Path, seconds: float) -> list[float]:
    """Shares of one-second windows that a peer spends in the train step."""
    get, train = overlap.sides_of(kind, run)
    for _ in range(workload.WARM_UP_STEPS):
        train(get())
    windows = []
    until_s = time.perf_counter() + seconds
    while (begun_s := time.perf_counter()) < until_s:
        busy_s = 0.0
        while time.perf_counter() - begun_s < 1.0:
            batch = get()
            step_s = time.perf_counter()
            train(batch)
            busy_s += time.perf_counter() - step_s
        windows.append(busy_s / (time.perf_counter() - begun_s))
    return windows


def main() -> None:
    parser = results.parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kind", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.kind:
        print(json.dumps({"windows": measure_peer(flags.kind, flags.run, flags.seconds)}))
        sys.stdout.flush()
        workload.leave()
    shares: dict[str, list] = {kind: [] for kind in ("Tandem", *PEERS)}
    waits, missing = [], {}
    with tempfile.TemporaryDirectory(prefix="oscillation-") as place:
        folder = Path(place)
        corpus = workload.make_corpus(folder)
        run = workload.prepare(corpus, folder / "prepared")
        for repeat in range(flags.repeats):
            windows, waited = measure(corpus, folder / f"run-{repeat}", flags.seconds)
            shares["Tandem"].append(np.percentile(windows, [5, 50]))
            waits.append(100 * waited)
            for kind in PEERS:
                arguments = ("--run", str(run), "--seconds", str(flags.seconds / 3))
                found = workload.child(__file__, "--kind", kind, *arguments)
                if "failed" in found:
                    missing[kind] = found["failed"]
                    continue
                shares[kind].append(np.percentile(found["windows"], [5, 50]))
            for kind, pairs in shares.items():
                if pairs:
                    low, middle = pairs[-1]
                    results.say(f"  {repeat + 1}/{flags.repeats} {kind} {low:.3f} {middle:.3f}")
    lines = []
    for kind, pairs in shares.items():
        if kind in missing:
            lines.append(Line(kind, [], note=missing[kind]))
            continue
        lines.append(Line(f"{kind}: busy share, median", [float(m) for _, m in pairs]))
        lines.append(Line(f"{kind}: busy share, 5th percentile", [float(x) for x, _ in pairs]))
        ratio, goal = [float(x / m) for x, m in pairs], GOAL if kind == "Tandem" else None
        lines.append(Line(f"{kind}: 5th percentile / median", ratio, "×", least=goal))
    lines.append(Line("Tandem: waited for batches", waits, "%"))
    results.finish(flags, lines)


if __name__ == "__main__":
    main()
