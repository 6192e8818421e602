"""A command's child on the user's terminal: its outermost lines, and what it keeps off the screen."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator

from shared.errors import TandemError
from shared.worker.contract import EXIT_INTERRUPTED
from shared.worker.process_guard import guard_worker

WRONG = "❌ "  # before what is wrong, on a terminal


def foreground_main(work: Callable[[list[str]], int]) -> int:
    """The outermost lines of such a child: every expected error is a sentence."""
    guard_worker()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        return work(sys.argv[1:])
    except TandemError as error:
        print(f"{WRONG}{error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep what libraries write to the terminal while they start; it is shown if they fail."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except TandemError:
            raise  # its sentence says it all
        except BaseException:
            kept.seek(0)
            os.write(terminal, kept.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
