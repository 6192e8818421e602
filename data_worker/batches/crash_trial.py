"""Which of the files that a crashed data process was reading is to blame.

Each of them is decoded alone, in a fresh process. Only a file that crashes two of those, by a
signal that a decoder's own fault brings, is convicted; that something killed them says nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from data_worker.preparation.crash_proof_pool import ALONE_S, Crashed, one_by_one
from data_worker.speech.audio import load_utterance
from shared.errors import ReadError
from shared.launching.supervisor import CRASH_SIGNALS, signal_name
from shared.worker.reports import Reporter

log = logging.getLogger(__name__)

_DEADLINE_S = 2 * ALONE_S + 30.0


def find_guilty(
    suspects: Sequence[int], arguments_of: Callable[[int], tuple], reporter: Reporter
) -> dict[int, str]:
    """For each row whose file crashes a decoder, the name of the signal.

    `arguments_of(row)` is what `load_utterance` is called with.
    """
    guilty: dict[int, str] = {}
    reporter.phase("looking for the file that crashed it", _DEADLINE_S)
    results = one_by_one(try_to_load, [arguments_of(row) for row in suspects])
    for row, result in zip(suspects, results, strict=True):
        reporter.phase("looking for the file that crashed it", _DEADLINE_S)
        if isinstance(result, Crashed) and -(result.status or 0) in CRASH_SIGNALS:
            guilty[row] = signal_name(-result.status)
        verdict = f"guilty, {guilty[row]}" if row in guilty else "not guilty"
        log.info("row %d was being read at the crash: %s", row, verdict)
    if guilty:
        reporter.tell("convicted", rows=sorted(guilty))
    return guilty


def try_to_load(arguments: tuple) -> None:
    """In the fresh process: what readers do, but nobody needs the audio."""
    try:
        load_utterance(*arguments)
    except ReadError:
        pass  # a reader says so itself
