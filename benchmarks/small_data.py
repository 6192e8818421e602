"""Does a longer training make a voice worse that has little data? Budgets, judged on held-out recordings.

    python benchmarks/small_data.py --data my-voice [--language de] [--clips 125] [--steps 400 1000 4000]

`--data` is a folder with metadata.csv (`name|text`) and wavs/. Of so many of its recordings a fifth is held
out; `tiny` is trained on the others for each number of steps, through the launcher. What is compared is the
error of held-out mels: of the checkpoint that is kept as the best, which is the one that speaks, and of the
last step. Each budget over the shortest one.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import results
from results import Line
from workload import ROOT, environment

_VALIDATIONS = 10  # of each run
_WORST = 1.01  # of the shortest budget's error: a hundredth is noise


def few_of(data: Path, num_clips: int, folder: Path) -> Path:
    """A copy of some of the recordings, the same ones each time."""
    lines = [line for line in (data / "metadata.csv").read_text("utf-8").splitlines() if line]
    random.Random(0).shuffle(lines)
    (folder / "wavs").mkdir(parents=True)
    for line in lines[:num_clips]:
        (path,) = (data / "wavs").glob(Path(line.split("|")[0]).stem + ".*")
        shutil.copy(path, folder / "wavs")
    (folder / "metadata.csv").write_text("\n".join(lines[:num_clips]) + "\n", "utf-8")
    return folder


def held_out_errors(data: Path, run: Path, steps: int, flags: list[str]) -> list[float]:
    """Those of the validations of a run, in their order."""
    subprocess.run(
        [
            sys.executable, "launcher.py", "--train-data", str(data), "--run-dir", str(run),
            "--max-steps", str(steps), "--validate-every", str(steps // _VALIDATIONS),
            "--val-fraction", "0.2", "--model-size", "tiny", "--samples", "0", "--no-report",
            "--no-live", *flags,
        ],
        cwd=ROOT, env=environment(), check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["val_mel"] for record in records if "val_mel" in record]


def main() -> None:
    parser = results.parser_of(__doc__, repeats=1)
    parser.add_argument("--data", type=Path, required=True, help="folder of recordings")
    parser.add_argument("--language", default="en-us")
    parser.add_argument("--clips", type=int, default=125)
    parser.add_argument("--batch-size", default="8")
    parser.add_argument("--steps", type=int, nargs="+", default=[400, 1000, 4000])
    flags = parser.parse_args()
    kept: dict[int, list[float]] = {steps: [] for steps in flags.steps}
    last: dict[int, list[float]] = {steps: [] for steps in flags.steps}
    for repeat in range(flags.repeats):
        with tempfile.TemporaryDirectory(prefix="small-data-") as place:
            data = few_of(flags.data, flags.clips, Path(place) / "data")
            own = ["--language", flags.language, "--batch-size", flags.batch_size]
            for steps in flags.steps:
                run = Path(place) / f"run-{steps}"
                more = [*own, "--seed", str(repeat + 1)]
                errors = held_out_errors(data, run, steps, more)
                kept[steps].append(min(errors))
                last[steps].append(errors[-1])
                results.say(f"{steps} steps: kept {min(errors):.4f}, last {errors[-1]:.4f}")
    first, *others = flags.steps
    lines = [Line(f"held-out mel error, {first} steps", kept[first])]
    for steps in others:
        words = f"{steps} steps / {first} steps"
        lines += [
            Line(f"{words}, the voice that is kept", results.ratios(kept[steps], kept[first]), most=_WORST),
            Line(f"{words}, the last step", results.ratios(last[steps], kept[first])),
        ]  # fmt: skip
    results.finish(flags, lines)


if __name__ == "__main__":
    main()
