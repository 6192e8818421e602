"""python -m data_worker.preparation --run RUNDIR: the preparation as a child of the launcher.

Says what it does on stdout, one JSON object per line: progress, then prepared, or error and exit
code 2.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from shared.errors import TandemError

_PROGRESS_EVERY_S = 0.1
_QUARANTINE_KEYS = ("id", "line", "path", "kind", "reason", "metadata")


class _Reporter:
    """Writes events; progress at most ten times a second."""

    def __init__(self):
        self._last, self._what, self._deaf = 0.0, "", sys.stdout is None

    def event(self, event: str, **facts: object) -> None:
        if self._deaf:
            return
        try:
            print(json.dumps({"event": event, **facts}), flush=True)
        except (BrokenPipeError, ValueError):
            # Nobody reads any more; the files of the run still say everything.
            self._deaf = True
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115

    def progress(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if what == self._what and done < total and now - self._last < _PROGRESS_EVERY_S:
            return
        self._last, self._what = now, what
        self.event("progress", done=done, total=total, what=what)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m data_worker.preparation")
    parser.add_argument("--run", required=True, type=Path, help="run directory with config.toml")
    options = parser.parse_args(arguments)
    # One process per core: threads of the linear algebra library would only get in their way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # SIGINT too: whoever was started in the background of a script inherits that it is ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    reporter = _Reporter()
    try:
        return _prepare(options.run, reporter)
    except TandemError as error:
        reporter.event("error", message=str(error))
        return 2
    except OSError as error:
        reporter.event("error", message=f"{error.filename or options.run}: {error.strerror}.")
        return 2
    except KeyboardInterrupt:
        return 130


def _prepare(run: Path, reporter: _Reporter) -> int:
    from data_worker.preparation.prepare import Refused, prepare
    from shared.config.toml_file import load_config

    began = time.monotonic()
    config = load_config(run / "config.toml")
    try:
        index = prepare(
            config.data, config.training.seed, run / "index.safetensors", reporter.progress
        )
    except Refused as refusal:
        write_quarantine(run, [entry._asdict() for entry in refusal.left_out])
        raise
    write_quarantine(run, index.left_out)
    kinds = Counter(entry["kind"] for entry in index.left_out)
    reporter.event(
        "prepared",
        usable=len(index),
        train=int((index.split == 0).sum()),
        validation=int((index.split == 1).sum()),
        bad=kinds["bad"],
        filtered=kinds["filtered"],
        hours=round(float((index.num_samples / index.sample_rate).sum()) / 3600, 3),
        speakers=len(index.speakers),
        symbols=len(index.symbol_table),
        first_reasons=[_named(entry) for entry in index.left_out[:3]],
        seconds=round(time.monotonic() - began, 2),
        fingerprint=index.fingerprint,
        **index.preparation,
    )
    return 0


def write_quarantine(run: Path, left_out: list[dict]) -> None:
    """Write every row that was left out, one JSON object each, to the run's quarantine.jsonl."""
    beside = run / f".quarantine.jsonl.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as file:
        for entry in left_out:
            file.write(json.dumps(_public(entry), ensure_ascii=False) + "\n")
    os.replace(beside, run / "quarantine.jsonl")


def _public(entry: dict) -> dict:
    return {key: entry.get(key) for key in _QUARANTINE_KEYS}


def _named(entry: dict) -> str:
    return f"{entry.get('metadata', '')} line {entry['line']}: {entry['reason']}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
