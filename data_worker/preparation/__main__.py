"""python -m data_worker.preparation --run RUNDIR: the preparation as a child of the launcher.

Says what it does on stdout, in lines of `shared.worker.preparation_lines`: how far it is, then that it
is prepared, or why not and exit code 2.
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
from shared.run.typed_lines import encode
from shared.task.registry import DEFAULT
from shared.task.users_file import users_words
from shared.whole_file import whole_file
from shared.worker.contract import EXIT_INTERRUPTED
from shared.worker.preparation_lines import Looking, NotPrepared, PreparationLine, Prepared

_PROGRESS_EVERY_S = 0.1
_QUARANTINE_KEYS = ("id", "line", "path", "kind", "reason", "metadata")


class _Reporter:
    """Writes lines; how far it is at most ten times a second."""

    def __init__(self) -> None:
        self._last, self._what, self._deaf = 0.0, "", sys.stdout is None

    def tell(self, line: PreparationLine) -> None:
        if self._deaf:
            return
        try:
            print(encode(line).decode(), end="", flush=True)
        except (BrokenPipeError, ValueError):
            # Nobody reads any more; the files of the run still say everything.
            self._deaf = True
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115

    def progress(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if what == self._what and done < total and now - self._last < _PROGRESS_EVERY_S:
            return
        self._last, self._what = now, what
        self.tell(Looking(done, total, what))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m data_worker.preparation")
    parser.add_argument("--run", required=True, type=Path, help="run directory with config.toml")
    parser.add_argument("--task", default=DEFAULT, help="what is trained")
    parser.add_argument(
        "--identity-only", action="store_true", help="write down the task as it is now, no more"
    )
    options = parser.parse_args(arguments)
    # One process per core: threads of the linear algebra library would only get in their way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # a user's task may import TensorFlow
    # SIGINT too: whoever was started in the background of a script inherits that it is ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    reporter = _Reporter()
    try:
        return _prepare(options, reporter)
    except TandemError as error:
        reporter.tell(NotPrepared(str(error)))
        return 2
    except OSError as error:
        reporter.tell(NotPrepared(f"{error.filename or options.run}: {error.strerror}."))
        return 2
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        words = users_words(error)
        if words is None:
            raise
        reporter.tell(NotPrepared(words))
        return 2


def _prepare(options: argparse.Namespace, reporter: _Reporter) -> int:
    from data_worker.preparation.examine import DataRefused
    from data_worker.preparation.prepare import prepare
    from shared.config.toml_file import load_config
    from shared.run.directory import RunDirectory
    from shared.run.task_identity import TaskIdentity, recipe_of, write_identity
    from shared.task.registry import Task

    began, run = time.monotonic(), options.run
    config = load_config(run / "config.toml", options.task)
    named = Task.of(options.task)
    side = named.data_side()(config)
    identity = TaskIdentity.of(named, side.version, recipe_of(named, side))
    if named.has_data and named.has_model:
        named.model_side()  # the file is run anyway: what its other half lacks is told now
    if options.identity_only:
        write_identity(RunDirectory(run), identity)
        return 0
    try:
        index = prepare(config, run / "index.safetensors", reporter.progress)
    except DataRefused as refusal:
        write_quarantine(run, [entry._asdict() for entry in refusal.left_out])
        raise
    write_quarantine(run, index.left_out)
    write_identity(RunDirectory(run), identity)
    kinds = Counter(entry["kind"] for entry in index.left_out)
    details, *warnings = side.words(index)
    reporter.tell(
        Prepared(
            usable=len(index),
            train=int((index.split == 0).sum()),
            validation=int((index.split == 1).sum()),
            bad=kinds["bad"],
            filtered=kinds["filtered"],
            noun=str(side.noun),
            details=str(details),
            warnings=tuple(map(str, warnings)),
            first_reasons=tuple(_named(entry) for entry in index.left_out[:3]),
            seconds=round(time.monotonic() - began, 2),
            fingerprint=index.fingerprint,
            cached=index.preparation["cached"],
        )
    )
    return 0


def write_quarantine(run: Path, left_out: list[dict]) -> None:
    """Write every row that was left out, one JSON object each, to the run's quarantine.jsonl."""
    with whole_file(run / "quarantine.jsonl", durable=False) as file:
        for entry in left_out:
            file.write((json.dumps(_public(entry), ensure_ascii=False) + "\n").encode())


def _public(entry: dict) -> dict:
    return {key: entry.get(key) for key in _QUARANTINE_KEYS}


def _named(entry: dict) -> str:
    if not entry["line"]:
        return f"{entry['id']}: {entry['reason']}"
    return f"{entry.get('metadata', '')} line {entry['line']}: {entry['reason']}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
