"""How long from the command to the first training step? Against importing TensorFlow twice.

    python benchmarks/start_up.py [--repeats 3]

The floor is two processes that import TensorFlow at the same time, each on its core: less than that
no run of two processes can take. The run is the second on its corpus (the index is cached), without
a start delay; tracing the train step, measured apart, is taken off.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import results
import workload
from real_run import RealRun
from results import Line

GOAL_S = 3.0


def import_twice() -> float:
    """Seconds until two processes have both imported TensorFlow."""
    begun_s = time.perf_counter()
    program = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); import tensorflow"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(core)],
            env=workload.environment(), stderr=subprocess.DEVNULL,
        )
        for core in (workload.data_core(), workload.model_core())
    ]  # fmt: skip
    for process in children:
        process.wait()
    return time.perf_counter() - begun_s


def trace_seconds(run: Path) -> float:
    """What building the graph of the train step takes on the model side's core."""
    workload.start_tensorflow({workload.model_core()})
    model = workload.ModelOfRun(run)
    begun_s = time.perf_counter()
    model.step.warm_up()
    return time.perf_counter() - begun_s


def first_step(corpus: Path, run: Path) -> float:
    """Seconds from the command to the beginning of the first training step."""
    with RealRun(corpus, run) as tandem:
        return tandem.first_step_s() - tandem.started_s


def main() -> None:
    parser = results.parser_of(__doc__)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.run:
        print(json.dumps({"trace_s": trace_seconds(flags.run)}), flush=True)
        workload.leave()
    floors, starts, traces = [], [], []
    with tempfile.TemporaryDirectory(prefix="start-") as place:
        folder = Path(place)
        corpus = workload.make_corpus(folder)
        run = workload.prepare(corpus, folder / "prepared")
        import_twice()  # the files are in memory from here on
        for repeat in range(flags.repeats):
            floors.append(import_twice())
            traces.append(workload.child(__file__, "--run", str(run))["trace_s"])
            starts.append(first_step(corpus, folder / f"run-{repeat}"))
            results.say(
                f"  {repeat + 1}/{flags.repeats} floor {floors[-1]:.2f} s, first step after "
                f"{starts[-1]:.2f} s, of these tracing {traces[-1]:.2f} s"
            )
    above = [s - t - f for s, t, f in zip(starts, traces, floors, strict=True)]
    results.finish(
        flags,
        [
            Line("importing TensorFlow twice, at once", floors, "s"),
            Line("command to first training step", starts, "s"),
            Line("of these: tracing the train step", traces, "s"),
            Line("above the floor, tracing left out", above, "s", most=GOAL_S),
        ],
    )


if __name__ == "__main__":
    main()
