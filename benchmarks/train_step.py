"""How fast is the train step on one core, and how much of the core's matrix product does it reach?

    python benchmarks/train_step.py [--repeats 3] [--model-size small]

Frames/s of real speech (padding does not count) of Tandem's step on batches in memory, against a
plain PyTorch FastPitch-like step with as many parameters on the same batches (torch_fastpitch.py),
one thread each, in processor time. The peak is the best of TensorFlow's own float32 matrix
products; the step's floating-point operations are those that TensorFlow's profiler counts in its
forward and backward pass; what the optimizer computes takes time but does not count.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import results
import workload
from quiet_windows import rate_per_cpu_second
from results import Line, ratios

PEAK_SHARE_GOAL = 0.35  # for `small`
NUM_BATCHES = 4


def make_batches(run: Path) -> dict:
    """Writes a few batches of the run where both contenders find them."""
    workload.start_tensorflow({workload.data_core()})
    data = workload.DataParts(run)
    for n in range(NUM_BATCHES):
        np.savez(run / f"batch-{n}.npz", **data.make(n))
    return {"num_symbols": len(data.index.symbol_table)}


def load_batches(run: Path) -> list[dict[str, np.ndarray]]:
    batches = []
    for n in range(NUM_BATCHES):
        with np.load(run / f"batch-{n}.npz", allow_pickle=False) as file:
            batches.append({name: file[name] for name in file.files})
    return batches


def frames_of(batches: list[dict]) -> float:
    return float(np.mean([batch["mel_lengths"].sum() for batch in batches]))


def measure_tandem(run: Path, flags: argparse.Namespace) -> dict:
    tf = workload.start_tensorflow({workload.model_core()})
    batches = load_batches(run)
    model = workload.ModelOfRun(run, flags.model_size)
    turns = itertools.cycle(batches)
    rate = rate_per_cpu_second(lambda: model(next(turns)), flags.seconds, 3)
    gflops = count_gflops(tf, model.step, batches[0])
    peak = peak_gflops(tf)
    return {
        "frames_per_s": rate * frames_of(batches),
        "parameters": int(sum(np.prod(v.shape) for v in model.model.trainable_variables)),
        "share": rate * gflops / peak,
        "peak": peak,
        "gflops": gflops,
    }


def count_gflops(tf, step, batch: dict) -> float:
    """Floating-point operations of forward and backward on this batch's shape, in 10⁹."""
    shapes = {name: tf.TensorSpec(a.shape, a.dtype) for name, a in batch.items()}
    number = tf.TensorSpec([], tf.int32)
    graph = tf.function(step._gradients_of).get_concrete_function(shapes, number).graph
    profiler = tf.compat.v1.profiler
    options = profiler.ProfileOptionBuilder(profiler.ProfileOptionBuilder.float_operation())
    found = profiler.profile(graph, options=options.with_empty_output().build())
    return found.total_float_ops / 1e9


def peak_gflops(tf) -> float:
    """The best that matrix products of a few sizes reach."""
    best = 0.0
    for size in (768, 1024, 1536):
        a, b = tf.random.normal([size, size]), tf.random.normal([size, size])
        product = tf.function(lambda a, b: tf.matmul(a, b))
        product(a, b)
        for _ in range(8):
            begun_s = time.process_time()
            product(a, b).numpy()
            best = max(best, 2 * size**3 / (time.process_time() - begun_s) / 1e9)
    return best


def measure_torch(run: Path, flags: argparse.Namespace) -> dict:
    os.sched_setaffinity(0, {workload.model_core()})
    import torch
    from torch_fastpitch import Step

    torch.set_num_threads(1)
    batches = load_batches(run)
    step = Step(flags.num_symbols, flags.parameters)
    turns = itertools.cycle([{k: torch.from_numpy(v) for k, v in b.items()} for b in batches])
    rate = rate_per_cpu_second(lambda: step(next(turns)), flags.seconds, 3)
    return {"frames_per_s": rate * frames_of(batches), "parameters": step.num_parameters}


def main() -> None:
    parser = results.parser_of(__doc__)
    parser.add_argument("--model-size", default="small")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--kind", choices=("batches", "tandem", "torch"), help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--num-symbols", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parameters", type=int, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.kind == "batches":
        print(json.dumps(make_batches(flags.run)), flush=True)
        workload.leave()
    if flags.kind:
        measure = measure_tandem if flags.kind == "tandem" else measure_torch
        print(json.dumps(measure(flags.run, flags)), flush=True)
        return
    ours, theirs, missing = [], [], results.absent("torch")
    with tempfile.TemporaryDirectory(prefix="step-") as place:
        run = workload.prepare(workload.make_corpus(Path(place)), Path(place) / "run")
        common = ["--run", str(run), "--seconds", str(flags.seconds)]
        common += ["--model-size", flags.model_size]
        made = workload.child(__file__, "--kind", "batches", *common)
        for repeat in range(flags.repeats):
            ours.append(workload.child(__file__, "--kind", "tandem", *common))
            results.say(f"  {repeat + 1}/{flags.repeats} Tandem {ours[-1]}")
            if missing:
                continue
            more = ["--num-symbols", str(made["num_symbols"])]
            more += ["--parameters", str(ours[-1]["parameters"])]
            found = workload.child(__file__, "--kind", "torch", *common, *more)
            results.say(f"  {repeat + 1}/{flags.repeats} PyTorch {found}")
            if "failed" in found:
                missing = found["failed"]
            else:
                theirs.append(found)
    speed = [one["frames_per_s"] for one in ours]
    goal = PEAK_SHARE_GOAL if flags.model_size == "small" else None
    lines = [
        Line(f"Tandem, {flags.model_size}: parameters", [ours[0]["parameters"] / 1e6], "M"),
        Line(f"Tandem, {flags.model_size}", speed, "frames/s"),
        Line("the core's matrix product", [one["peak"] for one in ours], "GFLOP/s"),
        Line("Tandem: share of that peak", [one["share"] for one in ours], "×", least=goal),
    ]
    if missing:
        lines.append(Line("PyTorch FastPitch-like step", [], note=missing))
    else:
        peer = [one["frames_per_s"] for one in theirs]
        lines += [
            Line("PyTorch: parameters", [theirs[0]["parameters"] / 1e6], "M"),
            Line("PyTorch FastPitch-like step", peer, "frames/s"),
            Line("Tandem / PyTorch", ratios(speed, peer), "×", least=1.0),
        ]
    results.finish(flags, lines)


if __name__ == "__main__":
    main()
