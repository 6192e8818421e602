"""What does it cost to go on at step 1,000,000? The first batch there against the first at step 10.

    python benchmarks/resume.py [--repeats 3] [--rows 100000]

tandem              the data side of a run with so many utterances: plan the epoch at hand, read
                    the files, make the features; from an index that is loaded
StatefulDataLoader  torchdata's, around a stream of rows, resumed from its own state; the rows cost
                    nothing to read, so this is the least that it can take
tf.data skip        a shuffled, repeated range of rows in batches, with what was trained skipped
                    before anything is read

The peers only find their place; Tandem's figure includes making the batch.
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

EARLY, LATE = 10, 1_000_000
KINDS = {"tandem": "tensorflow", "StatefulDataLoader": "torchdata", "tf.data skip": "tensorflow"}
GOAL = 1.2


def wait_of_tandem(run: Path, rows: int, step: int) -> float:
    workload.start_tensorflow({workload.data_core()})
    data = workload.DataParts(run)
    data.make(3 * LATE)  # makes the graph, in an epoch that is neither of those measured
    begun_s = time.perf_counter()
    data.make(step)
    return time.perf_counter() - begun_s


def wait_of_stateful(run: Path, rows: int, step: int) -> float:
    from torch.utils.data import IterableDataset
    from torchdata.stateful_dataloader import StatefulDataLoader

    os.sched_setaffinity(0, {workload.data_core()})

    class Rows(IterableDataset):
        def __iter__(self):
            while True:
                yield from range(rows)

    def loader() -> StatefulDataLoader:
        return StatefulDataLoader(Rows(), batch_size=workload.BATCH_SIZE)

    before = loader()
    next(iter(before))
    state = {**before.state_dict(), "_num_yielded": step}  # what it says after so many batches
    after = loader()
    begun_s = time.perf_counter()
    after.load_state_dict(state)
    next(iter(after))
    return time.perf_counter() - begun_s


def wait_of_skip(run: Path, rows: int, step: int) -> float:
    tf = workload.start_tensorflow({workload.data_core()})
    dataset = tf.data.Dataset.range(rows).shuffle(rows, seed=1).repeat()
    dataset = dataset.batch(workload.BATCH_SIZE).skip(step)
    begun_s = time.perf_counter()
    next(iter(dataset))
    return time.perf_counter() - begun_s


WAITS = dict(zip(KINDS, (wait_of_tandem, wait_of_stateful, wait_of_skip), strict=True))


def main() -> None:
    parser = results.parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="utterances of the corpus")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.kind:
        wait_s = WAITS[flags.kind](flags.run, flags.rows, flags.step)
        print(json.dumps({"wait_s": wait_s}), flush=True)
        workload.leave()
    waits: dict[tuple, list[float]] = {(kind, at): [] for kind in KINDS for at in (EARLY, LATE)}
    missing = {}
    with tempfile.TemporaryDirectory(prefix="resume-") as place:
        run = workload.prepare(workload.make_corpus(Path(place)), Path(place) / "run")
        workload.grow_index(run, flags.rows)
        for repeat in range(flags.repeats):
            for (kind, at), known in waits.items():
                common = ("--run", str(run), "--rows", str(flags.rows))
                found = workload.child(__file__, "--kind", kind, "--step", str(at), *common)
                if "failed" in found:
                    missing[kind] = results.absent(KINDS[kind]) or found["failed"]
                    continue
                known.append(found["wait_s"] * 1000)
                results.say(f"  {repeat + 1}/{flags.repeats} {kind} {at:,}: {known[-1]:.1f} ms")
    lines = []
    for kind in KINDS:
        if kind in missing:
            lines.append(Line(kind, [], note=missing[kind]))
            continue
        early, late = waits[kind, EARLY], waits[kind, LATE]
        lines.append(Line(f"{kind}: first batch at step {EARLY}", early, "ms"))
        lines.append(Line(f"{kind}: first batch at step {LATE:,}", late, "ms"))
        goal = GOAL if kind == "tandem" else None
        lines.append(Line(f"{kind}: {LATE:,} / {EARLY}", ratios(late, early), "×", most=goal))
    results.finish(flags, lines)


if __name__ == "__main__":
    main()
