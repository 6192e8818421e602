"""Do more data workers help on storage that answers after 20 ms? Batches/s with 1, 2, 4, 8 of them.

    python benchmarks/slow_storage.py [--repeats 1] [--workers 1 2 4 8]

20 ms are waited before every file is read. Tandem's runs are real: so many data processes, each
with one reader thread (`--num-workers 1`), and the train step as the consumer, whose own speed is
the limit. Every contender may have two batches a worker in flight, and eight at the least. Beside
them stands one data process that chooses its number of readers by itself. The
peer is a torch DataLoader with as many worker processes, which feeds the same train step.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import alterations
import results
import workload
from quiet_windows import WARM_UP_S, rate_of
from real_run import RealRun
from results import Line, ratios

LINEAR = 0.9  # of what so many workers would do, or of the model side's limit


def in_flight(workers: int) -> int:
    """Batches under way at once: each worker needs its next ticket while its last batch waits."""
    return max(workload.AHEAD, 2 * workers)


def settling_s(workers: int) -> float:
    """Until every worker has joined, and readers that tune themselves have settled."""
    return WARM_UP_S + 2.0 * workers


def run_torch(run: Path, workers: int, seconds: float) -> float:
    from torch_loader import loader_of

    core = workload.data_core()
    workload.start_tensorflow({workload.model_core()})
    model = workload.ModelOfRun(run)
    batches = iter(loader_of(run, core, workers, in_flight(workers)))

    def step() -> None:
        model({name: tensor.numpy() for name, tensor in next(batches).items()})

    return rate_of(step, seconds, settling_s(workers)).per_s


def run_tandem(corpus: Path, folder: Path, workers: int, readers: int, seconds: float) -> float:
    flags = ("--num-workers", str(readers), "--log-every", "1",
             "--buffer-size", str(in_flight(workers)))  # fmt: skip
    with RealRun(corpus, folder / f"run-{time.time_ns()}", *flags, data_workers=workers) as tandem:
        return tandem.watch(seconds, settling_s(workers)).per_s


def main() -> None:
    parser = results.parser_of(__doc__, repeats=1)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    os.environ[alterations.VARIABLE] = "storage-20ms"
    if flags.run:
        print(json.dumps({"rate": run_torch(flags.run, flags.workers[0], flags.seconds)}))
        workload.leave()
    tandem: dict[int, list[float]] = {count: [] for count in flags.workers}
    torch: dict[int, list[float]] = {count: [] for count in flags.workers}
    limit, tuned, missing = [], [], results.absent("torch")
    with tempfile.TemporaryDirectory(prefix="storage-") as place:
        folder = Path(place)
        corpus = workload.make_corpus(folder)
        run = workload.prepare(corpus, folder / "prepared", "--num-workers", "1")
        for _ in range(flags.repeats):
            common = ("--kind", "model", "--run", str(run), "--seconds", str(flags.seconds))
            limit.append(workload.child(str(Path(__file__).parent / "overlap.py"), *common)["rate"])
            results.say(f"  model side alone: {limit[-1]:.2f} batches/s")
            tuned.append(run_tandem(corpus, folder, 1, 0, flags.seconds))
            results.say(f"  one data process, its own number of readers: {tuned[-1]:.2f}")
            for count in flags.workers:
                tandem[count].append(run_tandem(corpus, folder, count, 1, flags.seconds))
                results.say(f"  Tandem, {count} data processes: {tandem[count][-1]:.2f}")
                if not missing:
                    arguments = ("--run", str(run), "--workers", str(count))
                    found = workload.child(__file__, *arguments)
                    torch[count].append(found.get("rate", 0.0))
                    results.say(f"  torch, {count} workers: {found}")
    lines = [Line("model side alone", limit, "batches/s")]
    one = tandem[flags.workers[0]]
    for count in flags.workers:
        ideal = [min(count * a / flags.workers[0], b) for a, b in zip(one, limit, strict=True)]
        name = f"Tandem, {count} data process{'es' if count > 1 else ''} of one reader"
        lines.append(Line(name, tandem[count], "batches/s"))
        if count != flags.workers[0]:
            share = ratios(tandem[count], ideal)
            lines.append(Line(f"{name} / linear or the limit", share, "×", least=LINEAR))
        if missing:
            lines.append(Line(f"torch, {count} workers", [], note=missing))
        else:
            lines.append(Line(f"torch, {count} workers", torch[count], "batches/s"))
    lines.append(Line("Tandem, one data process, its own number of readers", tuned, "batches/s"))
    lines.append(Line("the same / model side alone", ratios(tuned, limit), "×"))
    results.finish(flags, lines)


if __name__ == "__main__":
    main()
