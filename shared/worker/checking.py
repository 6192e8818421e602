"""A check in a child process: what it sees goes to the launcher line by line, and what is wrong last."""

from __future__ import annotations

import os
from collections.abc import Callable

from shared.errors import TandemError
from shared.run.typed_lines import encode
from shared.task.users_file import users_words
from shared.worker.check_lines import CheckLine, Failed, Passed
from shared.worker.start import begin_worker, failure_in_words

_output = None  # where the lines go; what libraries print goes elsewhere


def tell(line: CheckLine) -> None:
    """One line, of any kind."""
    if _output is not None:
        _output.write(encode(line))
        _output.flush()


def passed(method: str, saw: str) -> None:
    """One thing is as it should be."""
    tell(Passed(method, saw))


def remark(words: str) -> None:
    """Worth knowing, and no fault."""
    tell(Passed("", words))


def check_main(work: Callable[[], None]) -> int:
    """Run one half's checks; what is wrong is the last line."""
    global _output
    begin_worker()
    _output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        work()
    except Exception as error:
        tell(Failed(problem_of(error)))
        if not isinstance(error, TandemError) and users_words(error) is None:
            raise
        return 1
    return 0


def problem_of(error: Exception) -> str:
    """What ended the checks, in a sentence: of ours, of the user's file, or of neither."""
    if isinstance(error, TandemError):
        return str(error)
    return users_words(error) or failure_in_words(error)
