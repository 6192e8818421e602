"""What the two halves of `validate --task` tell the launcher: a line of JSON for each thing seen."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from shared.errors import TandemError
from shared.task.users_file import users_words
from shared.worker.start import begin_worker, failure_in_words

_output = None  # where the lines go; what libraries print goes elsewhere


def passed(method: str, saw: str) -> None:
    """One thing is as it should be."""
    _write({"passed": True, "method": method, "saw": saw})


def remark(words: str) -> None:
    """Worth knowing, and no fault."""
    _write({"passed": True, "method": "", "saw": words})


def _write(line: dict) -> None:
    if _output is not None:
        _output.write(json.dumps(line) + "\n")
        _output.flush()


def check_main(work: Callable[[], None]) -> int:
    """Run one half's checks; what is wrong is the last line."""
    global _output
    begin_worker()
    _output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        work()
    except TandemError as error:
        _write({"passed": False, "problem": str(error)})
        return 1
    except Exception as error:
        _write({"passed": False, "problem": users_words(error) or failure_in_words(error)})
        if users_words(error) is None:
            raise
        return 1
    return 0
