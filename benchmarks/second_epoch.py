"""How much faster is the second epoch with the feature cache, and does the memory stay bounded?

    python benchmarks/second_epoch.py [--repeats 3]

The data side alone, on one core: batches/s of the first epoch and of the second, with `--cache
off`, `memory` and `disk`; and `memory` with room for a quarter of the corpus, whose growth between
the end of the first epoch and the end of the third is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import results
import workload
from results import Line, ratios

GOAL = 5.0
QUARTER_MEGABYTES = 8  # the features of the corpus take about 35 MB
KINDS = {
    "off": ("--cache", "off"),
    "memory": ("--cache", "memory"),
    "disk": ("--cache", "disk"),
    "quarter": ("--cache", "memory", "--cache-megabytes", str(QUARTER_MEGABYTES)),
}


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(run: Path, num_epochs: int = 3) -> dict:
    """Batches/s of each epoch, and the memory held at its end."""
    workload.start_tensorflow({workload.data_core()})
    data = workload.DataParts(run)
    data.make(0)  # the graph is made here; its rows are made again below, out of the cache
    stream, rates, memory = data.stream(), [], []
    per_epoch = data.plan.batches_per_epoch
    for _ in range(num_epochs):
        begun_s = time.perf_counter()
        for _ in range(per_epoch):
            next(stream)
        rates.append(per_epoch / (time.perf_counter() - begun_s))
        memory.append(resident_megabytes())
    return {"rates": rates, "memory": memory}


def main() -> None:
    parser = results.parser_of(__doc__)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.run:
        print(json.dumps(measure(flags.run)), flush=True)
        workload.leave()
    found: dict[str, list[dict]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="epochs-") as place:
        corpus = workload.make_corpus(Path(place))
        for repeat in range(flags.repeats):
            for kind, settings in KINDS.items():
                # Each in a folder of its own: the disk cache is beside the run.
                run = Path(place) / f"{kind}-{repeat}" / "run"
                run.parent.mkdir()
                workload.prepare(corpus, run, *settings)
                found[kind].append(workload.child(__file__, "--run", str(run)))
                rates = found[kind][-1]["rates"]
                results.say(f"  {repeat + 1}/{flags.repeats} {kind:8} " + "  ".join(
                    f"{rate:6.1f}/s" for rate in rates))  # fmt: skip
    lines = []
    for kind in KINDS:
        first, second = ([entry["rates"][n] for entry in found[kind]] for n in (0, 1))
        name = f"cache {kind}" if kind != "quarter" else "cache memory, a quarter fits"
        goal = GOAL if kind == "memory" else None
        lines.append(Line(f"{name}: first epoch", first, "batches/s"))
        lines.append(Line(f"{name}: second / first", ratios(second, first), "×", least=goal))
    off = [entry["rates"][1] for entry in found["off"]]
    memory = [entry["rates"][1] for entry in found["memory"]]
    lines.append(Line("second epoch: memory / off", ratios(memory, off), "×", least=GOAL))
    grown = [entry["memory"][2] - entry["memory"][0] for entry in found["quarter"]]
    lines.append(
        Line("a quarter fits: memory grown from epoch 1 to 3", grown, "MB", most=QUARTER_MEGABYTES)
    )
    results.finish(flags, lines)


if __name__ == "__main__":
    main()
