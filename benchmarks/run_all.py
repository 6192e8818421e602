"""Runs the benchmarks, prints one table, writes RESULTS.md and draws the pictures of the docs.

    python benchmarks/run_all.py [--only overlap resume] [--append] [-- flags of the scripts]

What was measured is kept in results.json, so a part can be measured again by itself; with --append
its repeats are added to those that are there instead of replacing them. What follows `--` is given
to the scripts.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pictures
from results import Line, lines_of, markdown, say, table
from workload import ROOT

HERE = ROOT / "benchmarks"
STORE, PAGE = HERE / "results.json", HERE / "RESULTS.md"
PACKAGES = (
    "tensorflow", "keras", "numpy", "librosa", "scipy", "soundfile", "soxr", "pyzmq", "torch",
    "torchdata", "ray", "nvidia-dali-cuda120", "onnxruntime",
)  # fmt: skip

HEADING = """# What the benchmarks printed

Written by `make bench` (`benchmarks/run_all.py`); do not edit. Each figure is the median of its
repeats, with the lowest and the highest in brackets. Ratios are taken within one repeat, on one
machine. ✅ and ❌ say whether a goal was reached."""


# Script and what it answers.
QUESTIONS = {
    "overlap": "Overlap: a real run against the slower of its two sides",
    "python_overlap": "The same with a data side that is busy in Python",
    "own_task": "A user's own task: a frozen network on the data side",
    "transport": "Transport between two processes",
    "many_workers": "Batches a second that one model process takes from many data processes",
    "features": "Features on one core",
    "file_to_batch": "File to finished batch, on one core",
    "oscillation": "Oscillation of the model side's busy share",
    "second_epoch": "The second epoch with the cache",
    "train_step": "The train step on one core",
    "resume": "Resume: the first batch at step 1,000,000",
    "scale": "Scale: 1,000 to 1,000,000 utterances",
    "slow_storage": "More data workers on storage with 20 ms latency",
    "watchers": "Watchers: a step while the run is watched against one while it is not",
    "reading": "Numbers, dates and abbreviations read as people read them",
    "start_up": "Start-up: command to first training step",
    "voice": "Time to an intelligible voice",
    "vocoder": "Copy synthesis by the vocoder, after three minutes of training",
    "server": "A server that speaks, on ONNX",
}


# Shown as it prints.
PRINTED = {
    "voice": ("benchmarks/voice.py", "--minutes", "3"),
    "vocoder": ("benchmarks/vocoder.py", "--minutes", "3"),
}


def machine() -> str:
    """Processor, cores, memory and system, in one sentence."""
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((f.split(":")[1].strip() for f in facts if f.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} cores, {memory:.0f} GB, {platform.system()}, no GPU"


def versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def run(name: str, flags: list[str]) -> dict | None:
    """Run one script; what it found, or None when it failed."""
    command = ["python", *PRINTED.get(name, (f"benchmarks/{name}.py",))]
    command += [] if name in PRINTED else flags
    say(f"\n▶ {' '.join(command)}")
    begun_s = time.time()
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "lines.json"
        found = subprocess.run(
            [sys.executable, *command[1:], *([] if name in PRINTED else ["--json", str(target)])],
            cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        entry = {
            "command": " ".join(command),
            "date": time.strftime("%Y-%m-%d"),
            "seconds": round(time.time() - begun_s),
            "machine": machine(),
            "versions": versions(),
        }
        if found.returncode:
            say(f"❌ {name} ended with exit status {found.returncode}; its figures stay")
            return None
        if name in PRINTED:
            return {**entry, "lines": [], "text": found.stdout.strip()}
        return {**entry, "lines": json.loads(target.read_text())}


def appended(before: dict | None, found: dict) -> dict:
    """The new figures with the repeats of the earlier ones in front."""
    if not before:
        return found
    earlier = {line["name"]: line["values"] for line in before["lines"]}
    lines = [
        {**line, "values": [*earlier.get(line["name"], []), *line["values"]]}
        for line in found["lines"]
    ]
    measured = {line["name"] for line in lines}
    kept = [line for line in before["lines"] if line["name"] not in measured]
    return {**found, "lines": [*kept, *lines]}


def shown(entry: dict, as_table) -> str:
    """What a script found, as a table or as it printed it."""
    return f"```\n{entry['text']}\n```" if "text" in entry else as_table(lines_of(entry["lines"]))


def page_of(store: dict) -> str:
    """RESULTS.md."""
    parts = [HEADING]
    goals = [
        Line(f"{QUESTIONS[name]}: {line.name}", **_without_name(line))
        for name, entry in store.items()
        for line in lines_of(entry["lines"])
        if line.reached is not None
    ]
    if goals:
        parts += ["## All goals", markdown(goals)]
    for name, entry in store.items():
        parts.append(f"## {QUESTIONS[name]}")
        parts.append(f"`{entry['command']}` ({entry['date']}, {entry['seconds']} s)")
        if (HERE / "pictures" / f"{name}.svg").exists():
            parts.append(f"![{QUESTIONS[name]}](pictures/{name}.svg)")
        parts.append(shown(entry, markdown))
    parts.append("## Machine and versions")
    for facts in dict.fromkeys((entry["machine"], entry["versions"]) for entry in store.values()):
        names = [f"`{n}`" for n, e in store.items() if (e["machine"], e["versions"]) == facts]
        parts.append(f"{', '.join(names)}: {facts[0]}. {facts[1]}.")
    return "\n\n".join(parts) + "\n"


def _without_name(line: Line) -> dict:
    return {k: v for k, v in dataclasses.asdict(line).items() if k != "name"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--append", action="store_true", help="add repeats to those kept")
    parser.add_argument("--draw-only", action="store_true", help="measure nothing")
    parser.add_argument("rest", nargs="*", metavar="FLAG", help="flags of the scripts, after --")
    flags = parser.parse_args()
    store = json.loads(STORE.read_text()) if STORE.exists() else {}
    for name in [] if flags.draw_only else flags.only:
        found = run(name, flags.rest)
        if found is not None:
            store[name] = appended(store.get(name), found) if flags.append else found
            STORE.write_text(json.dumps(store, indent=1, ensure_ascii=False) + "\n")
    store = {name: store[name] for name in QUESTIONS if name in store}
    pictures.draw(store, HERE / "pictures")
    PAGE.write_text(page_of(store), encoding="utf-8")
    for name, entry in store.items():
        print(f"\n{QUESTIONS[name]}")
        print(shown(entry, table))


if __name__ == "__main__":
    main()
