"""Which of the files that a crashed data process was reading is to blame.

Each of them is decoded alone, in a fresh process. Only a file that crashes two of those, by a
signal that a decoder's own fault brings, is convicted; that something killed them says nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from data_worker.preparation.crash_proof_pool import ALONE_S, Crashed, one_by_one
from shared.config.settings import Config
from shared.plan.index import Index
from shared.plan.plan_of_run import example_of_row
from shared.task.registry import Task
from shared.worker.contract import CRASH_SIGNALS, signal_name
from shared.worker.reports import Convicted, Reporter

log = logging.getLogger(__name__)

_DEADLINE_S = 2 * ALONE_S + 30.0


class Suspect(NamedTuple):
    """One row of an index, and all that a fresh process needs to read it."""

    config: Config
    index_path: str
    row: int


def find_guilty(
    suspects: Sequence[int], config: Config, index: str, reporter: Reporter
) -> dict[int, str]:
    """For each row whose file crashes whoever reads it, the name of the signal."""
    guilty: dict[int, str] = {}
    reporter.phase("looking for the file that crashed it", _DEADLINE_S)
    results = one_by_one(try_to_read, [Suspect(config, index, row) for row in suspects])
    for row, result in zip(suspects, results, strict=True):
        reporter.phase("looking for the file that crashed it", _DEADLINE_S)
        number = -(result.status or 0) if isinstance(result, Crashed) else 0
        if number in CRASH_SIGNALS:
            guilty[row] = signal_name(number)
        verdict = f"guilty, {guilty[row]}" if row in guilty else "not guilty"
        log.info("row %d was being read at the crash: %s", row, verdict)
    if guilty:
        reporter.tell(Convicted(tuple(sorted(guilty))))
    return guilty


def try_to_read(suspect: Suspect) -> None:
    """In the fresh process: what readers do, but nobody needs the result."""
    config, index = suspect.config, Index.load(suspect.index_path)
    side = Task.of(config.run.task).data_side()(config)
    try:
        side.read(example_of_row(config, index)(suspect.row))
    except Exception:
        pass  # a reader says so itself
