"""What do 1,000 … 1,000,000 utterances cost before the first batch: time and memory?

    python benchmarks/scale.py [--repeats 3] [--rows 1000 10000 100000 1000000]

tandem  a data process with the index of a prepared run: map and check it, plan, make batch 0
torch   a DataLoader with one worker process over a Python list of (path, text, speaker), read from
        a metadata file of as many lines, shuffled; an item reads and decodes its wav

Imports are left out. Memory is what the process holds after its first batch beyond what it held
after the imports (shared pages divided among those who share them); for torch, of both processes.
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

SIZES = (10**3, 10**4, 10**5, 10**6)
NEAR_CONSTANT = 2.0  # how much longer the largest may take than the smallest
NUM_ASKED = 1000


def held_megabytes(pid: int | str = "self") -> float:
    """Resident memory, shared pages divided among the processes that share them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel does not say how much memory is held")


def measure_tandem(run: Path, rows: int) -> dict:
    workload.start_tensorflow({workload.data_core()})
    import data_worker.assembly  # noqa: F401

    before_mb, begun_s = held_megabytes(), time.perf_counter()
    data = workload.DataParts(run)
    loaded_s = time.perf_counter()
    data.make(0)
    made_s = time.perf_counter()
    held_mb = held_megabytes()
    measured_s = time.perf_counter()
    step = data.plan.batches_per_epoch // NUM_ASKED + 1
    for n in range(NUM_ASKED):
        data.plan.batch(n * step)
    asked_s = time.perf_counter()
    return {
        "open_s": loaded_s - begun_s,
        "first_s": made_s - begun_s,
        "ask_ms": (asked_s - measured_s) * 1000 / NUM_ASKED,
        "memory_mb": held_mb - before_mb,
    }


def measure_torch(run: Path, rows: int) -> dict:
    import soundfile
    import torch
    from torch.utils.data import DataLoader, Dataset

    os.sched_setaffinity(0, {workload.data_core()})
    torch.set_num_threads(1)

    class Utterances(Dataset):
        def __init__(self, path: Path):
            with open(path, encoding="utf-8") as file:
                self.rows = [line.rstrip("\n").split("|") for line in file]

        def __len__(self) -> int:
            return len(self.rows)

        def __getitem__(self, n: int):
            path, text, _ = self.rows[n]
            return torch.from_numpy(soundfile.read(path, dtype="float32")[0]), text

    before_mb, begun_s = held_megabytes(), time.perf_counter()
    loader = DataLoader(
        Utterances(run.with_name(f"{rows}.csv")), workload.BATCH_SIZE, shuffle=True,
        num_workers=1, collate_fn=list, prefetch_factor=1,
    )  # fmt: skip
    batches = iter(loader)
    next(batches)
    first_s = time.perf_counter() - begun_s
    held_mb = held_megabytes() + sum(held_megabytes(p.pid) for p in batches._workers)
    return {"first_s": first_s, "memory_mb": held_mb - before_mb}


def write_metadata(path: Path, corpus: Path, rows: int) -> None:
    known = [line.split("|") for line in (corpus / "metadata.csv").read_text().splitlines()]
    with open(path, "w", encoding="utf-8") as file:
        for n in range(rows):
            name, speaker, text = known[n % len(known)]
            file.write(f"{corpus}/{name}|{text}|{speaker}\n")


def main() -> None:
    parser = results.parser_of(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--kind", choices=("tandem", "torch"), help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.kind:
        measure = measure_tandem if flags.kind == "tandem" else measure_torch
        print(json.dumps(measure(flags.run, flags.rows[0])), flush=True)
        workload.leave()
    found: dict[tuple[str, int], list[dict]] = {}
    missing = {"torch": results.absent("torch")} if results.absent("torch") else {}
    kinds = [kind for kind in ("tandem", "torch") if kind not in missing]
    with tempfile.TemporaryDirectory(prefix="scale-") as place:
        corpus = workload.make_corpus(Path(place))
        for rows in flags.rows:
            run = workload.prepare(corpus, Path(place) / f"run-{rows}")
            workload.grow_index(run, rows)
            write_metadata(run.with_name(f"{rows}.csv"), corpus, rows)
            for repeat in range(flags.repeats):
                for kind in kinds:
                    common = ("--run", str(run), "--rows", str(rows))
                    one = workload.child(__file__, "--kind", kind, *common)
                    if "failed" in one:
                        missing[kind] = one["failed"]
                        continue
                    found.setdefault((kind, rows), []).append(one)
                    results.say(f"  {repeat + 1}/{flags.repeats} {rows:,} {kind}: {one}")
    results.finish(flags, lines_of(found, missing, flags.rows))


def lines_of(found: dict, missing: dict, sizes: list[int]) -> list[Line]:
    def values(kind: str, rows: int, name: str) -> list[float]:
        return [one[name] for one in found.get((kind, rows), ())]

    lines = [Line(kind, [], note=why) for kind, why in missing.items()]
    for rows in sizes:
        lines += [
            Line(f"{rows:,} rows: Tandem, index and plan", values("tandem", rows, "open_s"), "s"),
            Line(f"{rows:,} rows: Tandem, first batch", values("tandem", rows, "first_s"), "s"),
            Line(f"{rows:,} rows: Tandem, a batch's plan", values("tandem", rows, "ask_ms"), "ms"),
            Line(f"{rows:,} rows: Tandem, memory", values("tandem", rows, "memory_mb"), "MB"),
        ]
        if "torch" not in missing:
            lines += [
                Line(f"{rows:,} rows: torch, first batch", values("torch", rows, "first_s"), "s"),
                Line(f"{rows:,} rows: torch, memory", values("torch", rows, "memory_mb"), "MB"),
            ]
    least, most = min(sizes), max(sizes)
    for kind, goal in (("tandem", NEAR_CONSTANT), ("torch", None)):
        grown = ratios(values(kind, most, "first_s"), values(kind, least, "first_s"))
        if grown:
            name = f"{kind}: first batch, {most:,} / {least:,} rows"
            lines.append(Line(name, grown, "×", most=goal))
    return lines


if __name__ == "__main__":
    main()
