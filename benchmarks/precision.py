"""What do fewer bits cost in the loss? Whole runs on the CPU, in float32 and in 16 bits.

    python benchmarks/precision.py [--repeats 3] [--steps 2000] [--picture FILE.svg]

Each repeat is a seed: the same batches in the same order, from the same first weights, to the end of the
learning rate's way, with --precision float32 and bfloat16 (and what else --precisions names). Compared are
the errors that the run itself is judged by, on held-out speech, at its end; beside it how far the float32
runs of the seeds are apart, which is what chance does. A CPU rounds as a GPU does that sums in float32;
what a GPU's own kernels add to it is not measured here.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import results
import workload
from results import Line

MOST_LOSS = 1.02  # of float32's error at the end


def train(corpus: Path, run: Path, precision: str, seed: int, flags: argparse.Namespace) -> None:
    """One whole run, with validations on the way."""
    command = workload.run_flags(
        corpus, run, "--precision", precision, "--seed", str(seed), "--max-steps", str(flags.steps),
        "--val-fraction", "0.1", "--validate-every", str(max(1, flags.steps // 20)),
        "--model-size", flags.model_size, "--cache", "memory",
    )  # fmt: skip
    done = subprocess.run(
        command, cwd=workload.ROOT, env=workload.environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{precision}, seed {seed}: {done.stderr.strip().splitlines()[-1:]}")


def curve_of(run: Path) -> list[tuple[int, float]]:
    """Step and error of each validation; of the averaged weights, which are what speaks."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(r["step"], r["val_mel"]) for r in records if "val_mel" in r]


def is_done(run: Path, steps: int) -> bool:
    """Whether an earlier command has trained it to its end."""
    curve = curve_of(run) if (run / "metrics.jsonl").exists() else []
    return bool(curve) and curve[-1][0] == steps


def draw(curves: dict[str, list[list[tuple[int, float]]]], path: Path) -> None:
    """Every run's way, float32 over the others."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tandem"
    from matplotlib import pyplot

    colours = {"float32": "#b8b8b8", "bfloat16": "#1f6f8b", "float16": "#b45f06", "tf32": "#5d6670"}
    figure, axes = pyplot.subplots(figsize=(7, 3.2), layout="constrained")
    for precision, runs in curves.items():
        for number, curve in enumerate(runs):
            steps, errors = zip(*curve, strict=True)
            label = None if number else precision
            width = 3.0 if precision == "float32" else 1.2
            axes.plot(steps, errors, color=colours[precision], linewidth=width, label=label)
    axes.set_xlabel("steps")
    axes.set_ylabel("held-out mel error")
    axes.set_yscale("log")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    parser = results.parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--utterances", type=int, default=400)
    parser.add_argument("--model-size", default="tiny")
    parser.add_argument(
        "--precisions", nargs="+", default=["bfloat16"], choices=("bfloat16", "float16")
    )
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--runs", type=Path, help="keep runs here, and take those that are there")
    parser.add_argument("--picture", type=Path, help="draw the curves into this SVG")
    flags = parser.parse_args()
    names = ["float32", *flags.precisions]
    curves: dict[str, list[list[tuple[int, float]]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="precision-") as temporary:
        place = flags.runs or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        corpus = workload.make_corpus(place, flags.utterances)
        for seed in range(flags.first_seed, flags.first_seed + flags.repeats):
            for name in names:
                run = place / f"{flags.model_size}-{flags.steps}-{name}-{seed}"
                if not is_done(run, flags.steps):
                    train(corpus, run, name, seed, flags)
                curves[name].append(curve_of(run))
                results.say(f"  seed {seed}, {name}: {curves[name][-1][-1][1]:.4f}")
    if flags.picture:
        draw(curves, flags.picture)
    results.finish(flags, lines_of(curves))


def lines_of(curves: dict[str, list[list[tuple[int, float]]]]) -> list[Line]:
    ends = {name: [curve[-1][1] for curve in runs] for name, runs in curves.items()}
    lines = [Line(f"{name}: held-out mel error at the end", found) for name, found in ends.items()]
    exact = ends["float32"]
    middle = statistics.median(exact)
    lines.append(Line("float32, one seed / the middle one", [each / middle for each in exact], "×"))
    for name, found in ends.items():
        if name == "float32":
            continue
        quotients = results.ratios(found, exact)
        lines.append(Line(f"{name} / float32, of one seed", quotients, "×", most=MOST_LOSS))
        for share in (0.25, 0.5):
            at = int(len(curves[name][0]) * share)
            early = [
                ours[at][1] / theirs[at][1]
                for ours, theirs in zip(curves[name], curves["float32"], strict=True)
            ]
            lines.append(Line(f"the same after {share:.0%} of the steps", early, "×"))
    return lines


if __name__ == "__main__":
    main()
