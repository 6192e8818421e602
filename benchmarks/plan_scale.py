"""How the plan scales: loading the columns, planning an epoch, asking for a batch, and memory.

    python benchmarks/plan_scale.py [--rows 1000 10000 100000 1000000] [--batch-size 32]

Each size runs in a process of its own, so that its peak memory is its own. The columns are those of
an index with lengths like LJSpeech's (1.1 to 10.1 s, mean 6.57 s), 5 % of them held out, and are
read from a file as the workers read them.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shared.plan import Plan  # noqa: E402

FRAMES_PER_SECOND = 22_050 / 256


def write_columns(path: Path, num_rows: int) -> None:
    """Writes the four columns of lengths, each (num_rows,), into an .npz file."""
    generator = np.random.default_rng(0)
    seconds = 1.1 + 9.0 * generator.beta(1.816, 1.172, num_rows)
    num_frames = (seconds * FRAMES_PER_SECOND).astype(np.int32)
    np.savez(
        path,
        num_frames=num_frames,
        num_symbols=(num_frames / 5.7 * generator.normal(1, 0.1, num_rows)).astype(np.int32) + 1,
        speaker=generator.integers(0, max(num_rows // 1000, 1), num_rows).astype(np.int32),
        split=(generator.random(num_rows) < 0.05).astype(np.uint8),
    )


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(path: Path, batch_size: int) -> dict:
    """Times each step of using a plan, in this process."""
    base_mb = peak_megabytes()
    clock = time.perf_counter()

    def lap_ms() -> float:
        nonlocal clock
        before, clock = clock, time.perf_counter()
        return (clock - before) * 1000

    with np.load(path, allow_pickle=False) as file:
        columns = {name: file[name] for name in file.files}
    load_ms = lap_ms()
    plan = Plan(**columns, batch_size=batch_size, seed=1234, validate_every_batches=500)
    build_ms = lap_ms()
    epochs_ms = []
    for epoch in (0, 1, 1000):
        n = plan.layout.stream_index_of_train(epoch * plan.batches_per_epoch)
        lap_ms()
        plan.batch(n)
        epochs_ms.append(lap_ms())
    places = np.random.default_rng(1).integers(0, plan.batches_per_epoch, 1000).tolist()
    stream = [plan.layout.stream_index_of_train(t) for t in places]
    plan.batch(stream[0])
    lap_ms()
    for n in stream:
        plan.batch(n)
    batch_ms = lap_ms() / len(stream)
    plan.fingerprint()
    fingerprint_ms = lap_ms()
    return {
        "rows": len(columns["split"]),
        "load_ms": load_ms,
        "build_ms": build_ms,
        "worst_epoch_ms": max(epochs_ms),
        "batch_ms": batch_ms,
        "fingerprint_ms": fingerprint_ms,
        "padding_percent": 100 * plan.padding_fraction,
        "buckets": len(plan.buckets),
        "batches_per_epoch": plan.batches_per_epoch,
        "added_mb": peak_megabytes() - base_mb,
        "peak_mb": peak_megabytes(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.batch_size)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for position, num_rows in enumerate(arguments.rows):
            path = Path(folder) / f"{num_rows}.npz"
            write_columns(path, num_rows)
            command = [sys.executable, __file__, "--measure", str(path)]
            command += ["--batch-size", str(arguments.batch_size)]
            result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            if position == 0:
                print("  ".join(f"{name:>17}" for name in result))
            print(
                "  ".join(
                    f"{value:17,.2f}" if isinstance(value, float) else f"{value:17,}"
                    for value in result.values()
                )
            )


if __name__ == "__main__":
    main()
