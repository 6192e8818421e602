"""What is a GPU asked for by a step, by the features of a batch and by speaking, and is it kept busy?

    python benchmarks/gpu_launches.py [--only "step small"] [--names 20]

No GPU is needed: TensorFlow's own GPU code runs on the stand-in of `stand_in_gpu.py`, which computes
nothing and writes down what it is asked for. Launches of kernels, of libraries and of graphs, copies
and waits are exact. Modelled, for an RTX 4090 (`stand_in/stand_in.h` has its numbers), is how long the
device works and which share of the time that is; the host's time is this machine's, with 2.2 µs for
each thing that is asked. All of it with 32 rows of 640 frames and 96 symbols where no length is given.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import results
import stand_in_gpu
from results import Line

WORK = Path(__file__).with_name("gpu_work.py")
CASES = (
    *(f"step {size}" for size in ("tiny", "small", "normal", "big")),
    *(f"step {size} bfloat16" for size in ("tiny", "small", "normal", "big")),
    "step small float32",
    "step small float16",
    "step small adamw",
    "step normal adamw",
    "step small accumulated",
    "step small replica",
    "vocoder small",
    "vocoder small adamw",
    "validation small",
    "features 160",
    "features 640",
    "features 1296",
    "features 192 references",
    "speaking small",
)
# What may be asked for at most, waits of the host, and how long it may take in ms: modelled, of the host.
GOALS: dict[str, dict[str, float]] = {
    "step small": {"in_all": 1200, "waits": 0, "to_host": 0, "step_ms": 20},
    "step normal": {"in_all": 1500, "waits": 0, "to_host": 0, "step_ms": 45},
    "features 640": {"in_all": 300, "to_host": 1, "host_ms": 15},
    "features 1296": {"in_all": 300, "to_host": 1},
}
COLUMNS = {
    "launches": "launches",
    "library_calls": "library calls",
    "graphs": "graphs",
    "to_device": "to device",
    "to_host": "to host",
    "waits": "waits",
    "peak_mb": "peak MB",
    "busy_ms": "device ms",
    "host_ms": "host ms",
    "step_ms": "ms in all",
}
_DEADLINE_S = 900.0


def ask(case: str, folder: Path) -> dict:
    """What one piece of work asks for, in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(WORK), *case.split()],
        env=stand_in_gpu.environment(folder), capture_output=True, text=True, check=False,
        timeout=_DEADLINE_S,
    )  # fmt: skip
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if line.strip()]
        return {"failed": words[-1] if words else f"exit status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def row_of(case: str, found: dict) -> str:
    cells = [f"{found[name]:>13,.{1 if 'ms' in name else 0}f}" for name in COLUMNS]
    return f"{case:26}{''.join(cells)}{found['busy_ms'] / found['step_ms']:>9.0%}"


def lines_of(case: str, found: dict) -> list[Line]:
    goals = GOALS.get(case, {})
    shown = {
        "in_all": ("launches, library calls and graphs", ""),
        "waits": ("waits of the host", ""),
        "to_host": ("copies to the host", ""),
        "step_ms": ("modelled", "ms"),
        "host_ms": ("of the host", "ms"),
    }
    return [
        Line(f"{case}: {words}", [found[name]], unit, most=goals.get(name))
        for name, (words, unit) in shown.items()
    ]


def main() -> None:
    parser: argparse.ArgumentParser = results.parser_of(__doc__, repeats=1)
    parser.add_argument("--only", nargs="+", default=CASES, metavar="CASE")
    parser.add_argument("--names", type=int, default=0, help="how many kernels to name of each")
    flags = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory(prefix="stand-in-") as place:
        folder = stand_in_gpu.build(Path(place))
        results.say(f"{'':26}{''.join(f'{name:>13}' for name in COLUMNS.values())}     busy")
        for case in flags.only:
            found = ask(case, folder)
            if "failed" in found:
                results.say(f"{case:26} {found['failed']}")
                lines.append(Line(case, [], note=found["failed"]))
                continue
            results.say(row_of(case, found))
            for name, count in found["names"][: flags.names]:
                results.say(f"    {count:5d} {name[:150]}")
            lines += lines_of(case, found)
    results.finish(flags, lines)


if __name__ == "__main__":
    main()
