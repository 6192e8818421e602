"""Does the pipeline run at the speed of its slower side? Tandem and its peers on the same batches.

    python benchmarks/overlap.py [--repeats 3] [--seconds 8] [--only tandem sequential]

Two fake GPUs are two cores: every contender has its data side on one and its model side on the
other, the same files, features and train step, and at most 8 batches in flight. The limit is the
slower of the two sides alone. `at once` runs both sides at the same time without connecting them:
what they cost each other through the memory and the processor that they share.

tandem      a real run, `launcher.py … --fake-gpus 2 --data-gpu 0 --model-gpu 1`
sequential  one process: make a batch, train on it, and so on
tf.data     one process: the data side as a tf.data graph with prefetch, in threads of its own
service     the same graph in a tf.data service in another process
torch       a torch DataLoader with one worker process
"""

from __future__ import annotations

import argparse
import atexit
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import results
import workload
from quiet_windows import Rate, rate_of
from results import Line, ratios
from workload import DataParts, ModelOfRun

# Each with the least that Tandem's rate must be of its own.
PEERS: dict[str, float | None] = {"sequential": 1.0, "tf.data": 1.0, "service": 1.0, "torch": 1.0}
# What is compared the closest is measured side by side: a machine drifts from minute to minute.
KINDS = ("data", "sequential", "torch", "service", "tf.data", "tandem", "model")
GOAL = 0.98
SIDES = ("data", "model")
# What a process of a run may take beyond the same work alone and the batches that it may hold, each
# of them once where it was received and once on the device: transport, logs, supervision.
OVERHEAD_MB, LAUNCHER_MB = 64, 64
Sides = tuple[Callable[[], dict], Callable[[dict], None]]
NUM_BATCHES = 25  # in the corpus; peers that need a list of them go round and round


def sides_data(run: Path) -> Sides:
    workload.start_tensorflow({workload.data_core()})
    stream = DataParts(run).stream()
    return lambda: next(stream), lambda batch: None


def sides_model(run: Path) -> Sides:
    workload.start_tensorflow({workload.model_core()})
    data = DataParts(run)
    batches = itertools.cycle([data.make(n) for n in range(workload.AHEAD)])
    return lambda: next(batches), ModelOfRun(run)


def sides_sequential(run: Path) -> Sides:
    workload.start_tensorflow({workload.model_core()})
    data, numbers = DataParts(run), itertools.count()
    return lambda: data.make(next(numbers)), ModelOfRun(run)


def sides_tf_data(run: Path, through: Callable = lambda tf, dataset: dataset) -> Sides:
    """A thread stays on the cores of the one that started it."""
    model_core, data_core = workload.model_core(), workload.data_core()
    tf = workload.start_tensorflow({model_core})
    from tf_pipeline import make_dataset, with_prefetch

    model = ModelOfRun(run)
    dataset = through(tf, make_dataset(tf, DataParts(run), NUM_BATCHES))
    os.sched_setaffinity(0, {data_core})
    batches = iter(with_prefetch(tf, dataset, 1))
    next(batches)
    os.sched_setaffinity(0, {model_core})
    return lambda: next(batches), model


def sides_service(run: Path) -> Sides:
    place = Path(tempfile.mkdtemp(dir=run))
    command = [sys.executable, __file__, "--kind", "serve", "--place", str(place)]
    server = subprocess.Popen(command, env=workload.environment())
    atexit.register(server.kill)
    while not (place / "address").exists():
        time.sleep(0.1)

    def distribute(tf, dataset):
        return dataset.apply(
            tf.data.experimental.service.distribute(
                "parallel_epochs", (place / "address").read_text(), compression=None,
                max_outstanding_requests=workload.AHEAD,
            )
        )  # fmt: skip

    return sides_tf_data(run, distribute)


def serve(place: Path) -> None:
    """A tf.data service on the data side's core, until the contender kills it."""
    tf = workload.start_tensorflow({workload.data_core()})
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    (place / "new").write_text(dispatcher.target)
    (place / "new").rename(place / "address")
    worker.join()


def sides_torch(run: Path) -> Sides:
    from torch_loader import loader_of

    core = workload.data_core()
    workload.start_tensorflow({workload.model_core()})
    model = ModelOfRun(run)
    batches = iter(loader_of(run, core, num_workers=1))
    return lambda: {name: t.numpy() for name, t in next(batches).items()}, model


def sides_of(kind: str, run: Path) -> Sides:
    """How a contender, in this process, gets its next batch, and how it trains on it."""
    return globals()[f"sides_{kind.replace('.', '_')}"](run)


def run_tandem(corpus: Path, run: Path, seconds: float) -> tuple[Rate, dict[str, float]]:
    from real_run import RealRun

    with RealRun(corpus, run) as tandem:
        return tandem.watch(seconds), tandem.peaks_megabytes()


def measure(kind: str, corpus: Path, folder: Path, seconds: float) -> dict:
    """Steps per second of one contender, in processes of its own."""
    if kind == "tandem":
        rate, peaks = run_tandem(corpus, folder / f"run-{time.time_ns()}", seconds)
        return {"rate": rate.per_s, "others": rate.others, "peaks": peaks}
    common = ("--run", str(folder / "prepared"), "--seconds", str(seconds))
    return workload.child(__file__, "--kind", kind, *common)


def at_once(folder: Path, seconds: float) -> list[float]:
    """Rates of both sides running at the same time, not connected."""
    common = ["--run", str(folder / "prepared"), "--seconds", str(seconds)]
    children = [
        subprocess.Popen(
            [sys.executable, __file__, "--kind", kind, *common],
            env=workload.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )
        for kind in SIDES
    ]  # fmt: skip
    return [json.loads(c.communicate()[0].splitlines()[-1])["rate"] for c in children]


def compare(
    flags: argparse.Namespace, peers: dict, goal: float, make_corpus: Callable[[Path], Path]
) -> list[Line]:
    """All contenders in turn, in every repeat; every second one the other way round."""
    kinds = [kind for kind in KINDS if kind in (*peers, *SIDES, "tandem")]
    kinds = [kind for kind in kinds if not flags.only or kind in (*flags.only, *SIDES)]
    rates: dict[str, list[float]] = {kind: [] for kind in (*kinds, "at once")}
    missing, peaks, others = {}, [], []
    bounds = {"launcher": LAUNCHER_MB}
    if "torch" in kinds and results.absent("torch"):
        missing["torch"] = results.absent("torch")
        kinds = [kind for kind in kinds if kind != "torch"]
    with tempfile.TemporaryDirectory(prefix="overlap-") as place:
        folder = Path(place)
        corpus = make_corpus(folder)
        workload.prepare(corpus, folder / "prepared")
        for repeat in range(flags.repeats):
            for kind in kinds if repeat % 2 == 0 else reversed(kinds):
                found = measure(kind, corpus, folder, flags.seconds)
                if "failed" in found:
                    missing[kind] = found["failed"]
                    results.say(f"  {repeat + 1}/{flags.repeats} {kind:12} {found['failed']}")
                    continue
                rates[kind].append(found["rate"])
                peaks += [found["peaks"]] if "peaks" in found else []
                if kind in SIDES:
                    held_mb = 2 * workload.AHEAD * found["batch"]
                    bounds[f"{kind} process"] = round(found["peak"] + held_mb + OVERHEAD_MB)
                others.append(100 * found["others"])
                results.say(
                    f"  {repeat + 1}/{flags.repeats} {kind:12} {found['rate']:6.2f}/s "
                    f"(others {found['others']:.0%})"
                )
            rates["at once"].append(min(both := at_once(folder, flags.seconds)))
            results.say(f"  {repeat + 1}/{flags.repeats} at once {both[0]:6.2f} {both[1]:6.2f}/s")
    lines = lines_of(rates, missing, peaks, bounds, peers, goal)
    return [*lines, Line("other programs' share of the cores meanwhile", others, "%")]


def lines_of(
    rates: dict, missing: dict, peaks: list, bounds: dict, peers: dict, goal: float
) -> list[Line]:
    limit = [min(pair) for pair in zip(rates["data"], rates["model"], strict=True)]
    lines = [
        Line("data side alone", rates["data"], "batches/s"),
        Line("model side alone", rates["model"], "batches/s"),
        Line("both at once, not connected / limit", ratios(rates["at once"], limit), "×"),
    ]
    tandem = rates.get("tandem", [])
    if tandem:
        lines.append(Line("Tandem / limit", ratios(tandem, limit), "×", least=goal))
        lines.append(Line("Tandem / both at once", ratios(tandem, rates["at once"]), "×"))
    for peer, least in peers.items():
        if peer in missing:
            lines.append(Line(f"{peer} / limit", [], note=missing[peer]))
        elif rates.get(peer):
            lines.append(Line(f"{peer} / limit", ratios(rates[peer], limit), "×"))
            if tandem:
                ratio = ratios(tandem, rates[peer])
                lines.append(Line(f"Tandem / {peer}", ratio, "×", least=least))
    for role in sorted({role for found in peaks for role in found}):
        megabytes = [found[role] for found in peaks]
        lines.append(Line(f"peak memory, {role}", megabytes, "MB", most=bounds.get(role)))
    return lines


def main(
    peers: dict[str, float | None] = PEERS,
    goal: float = GOAL,
    doc: str = __doc__,
    make_corpus: Callable[[Path], Path] = workload.make_corpus,
) -> None:
    parser = results.parser_of(doc)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--only", nargs="+", choices=KINDS)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.kind == "serve":
        serve(flags.place)
    elif flags.kind:
        get, train = sides_of(flags.kind, flags.run)
        rate = rate_of(lambda: train(get()), flags.seconds)
        found = {"rate": rate.per_s, "others": rate.others}
        if flags.kind in SIDES:
            found["peak"] = workload.peak_megabytes(os.getpid())
            found["batch"] = sum(array.nbytes for array in get().values()) / 2**20
        print(json.dumps(found), flush=True)
        workload.leave()
    else:
        results.finish(flags, compare(flags, peers, goal, make_corpus))


if __name__ == "__main__":
    main()
