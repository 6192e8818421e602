"""Memory and descriptors of every process over a long run, and while its consumer stands still.

    python benchmarks/flat_memory.py [--steps 3000] [--stall 8] [--work benchmarks/work/flat]

A run on two fake GPUs with a small buffer and no cache, looked at ten times a second. Half way the
model process is stopped for a while (SIGSTOP, shorter than its deadline) and goes on again. Shown
for each process: resident memory after 3, 5, 7 and 9 tenths of the run, open descriptors, and, for
the stall, what they grew by and the share of a core that was used once the queue was full. Exit
code 1 when memory grew by more than 5 %, or 2 % in the last part, or by a descriptor, or when
anything did not stand still.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fault_runs import TINY, Run, make_corpus, read_lines

SETTINGS = [
    *TINY, "--batch-size", "4", "--max-buckets", "2", "--checkpoint-every", "200",
    "--log-every", "5", "--no-live", "--cache", "off", "--buffer-size", "8", "--max-restarts", "0",
]  # fmt: skip
MAX_GROWTH = 0.05
MAX_IDLE_SHARE = 0.1
_SETTLED_S = 2.0  # after this long a stalled run's queue is full


class Sample(NamedTuple):
    """What one process takes at one moment."""

    at_s: float
    resident_mb: float
    descriptors: int
    cpu_s: float


def look_at(pid: int) -> Sample:
    """Raises OSError when it has ended."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    return Sample(time.monotonic(), pages * os.sysconf("SC_PAGESIZE") / 1e6, descriptors, cpu_s)


def watch(run: Run, steps: int, stall_s: float) -> tuple[dict[str, list[Sample]], float, float]:
    """Samples of each process until the run is over, and when the stall began and ended."""
    samples: dict[str, list[Sample]] = {}
    stalled_s = resumed_s = 0.0
    next_look_s = 0.0
    while not run.is_over:
        run.look()
        workers = {name: life.pid for name, life in run.lives.items()}
        for name, pid in {"launcher": run.process.pid, **workers}.items():
            try:
                samples.setdefault(name, []).append(look_at(pid))
            except OSError:
                continue
        now_s = time.monotonic()
        model = run.lives.get("model_worker")
        if not stalled_s and now_s > next_look_s and model:
            next_look_s = now_s + 1
            logged = read_lines(run.folder / "metrics.jsonl")
            if logged and logged[-1]["step"] >= steps // 2:
                run.signal(model.pid, signal.SIGSTOP)
                stalled_s = now_s
        elif stalled_s and not resumed_s and now_s > stalled_s + stall_s and model:
            run.signal(model.pid, signal.SIGCONT)
            resumed_s = now_s
        time.sleep(0.1)
    return samples, stalled_s, resumed_s


def typical(samples: list[Sample], field: str) -> float:
    return statistics.median(getattr(sample, field) for sample in samples)


def report(name: str, samples: list[Sample], stalled_s: float, resumed_s: float) -> list[str]:
    """Print one process's line; returns what is wrong with it."""
    tenth = len(samples) // 10
    parts = [samples[part * tenth : (part + 1) * tenth] for part in (3, 5, 7, 9)]
    before_mb, _, middle_mb, after_mb = (typical(part, "resident_mb") for part in parts)
    before_fds, after_fds = (typical(part, "descriptors") for part in (parts[0], parts[-1]))
    course = " → ".join(f"{typical(part, 'resident_mb'):.0f}" for part in parts)
    stall = [s for s in samples if stalled_s + _SETTLED_S < s.at_s < resumed_s]
    share = (stall[-1].cpu_s - stall[0].cpu_s) / (stall[-1].at_s - stall[0].at_s)
    grown_mb = stall[-1].resident_mb - stall[0].resident_mb
    print(f"{name:14} {course} MB, {before_fds:.0f} → {after_fds:.0f} descriptors; in the stall "
          f"{grown_mb:+.1f} MB, {share:.1%} of a core")  # fmt: skip
    wrong = []
    if after_mb > before_mb * (1 + MAX_GROWTH) + 1 or after_mb > middle_mb * 1.02 + 1:
        wrong.append(f"{name} grew by {after_mb - before_mb:.1f} MB")
    if after_fds > before_fds:
        wrong.append(f"{name} has {after_fds - before_fds:.0f} more descriptors")
    if share > MAX_IDLE_SHARE or grown_mb > 1:
        wrong.append(f"{name} did not stand still in the stall")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--stall", type=float, default=8.0, metavar="SECONDS")
    parser.add_argument("--work", default="benchmarks/work/flat")
    flags = parser.parse_args()
    work = Path(flags.work).resolve()
    work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(work / "run", ignore_errors=True)
    corpus = make_corpus(work / "corpus", 60)
    started_s = time.monotonic()
    run = Run(work / "run", corpus, work, "--max-steps", str(flags.steps), settings=SETTINGS)
    try:
        samples, stalled_s, resumed_s = watch(run, flags.steps, flags.stall)
    finally:
        run.end()
    if run.process.returncode != 0 or not resumed_s:
        print(run.text)
        return 1
    wrong = [line for name, each in sorted(samples.items())
             for line in report(name, each, stalled_s, resumed_s)]  # fmt: skip
    print(f"{flags.steps} steps, {time.monotonic() - started_s:.0f} s; {len(wrong)} problems")
    for line in wrong:
        print(f"   {line}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
