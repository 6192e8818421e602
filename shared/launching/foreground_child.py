"""Commands that need TensorFlow run as a child of the launcher, on the same terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

from shared.errors import TandemError
from shared.launching.places import child_environment
from shared.launching.supervisor import status_in_words
from shared.worker.process_guard import guard_worker

_EXIT_INTERRUPTED = 130


def run_in_foreground(module: str, arguments: list[str]) -> int:
    """Run `python -m module` to its end and return its exit code.

    Raises:
        TandemError: a signal ended it.
    """
    child = subprocess.Popen([sys.executable, "-m", module, *arguments], env=child_environment({}))
    try:
        status = child.wait()
    except KeyboardInterrupt:
        child.wait()  # Ctrl-C reached it too
        raise
    except BaseException:
        child.kill()
        child.wait()
        raise
    if status < 0:
        raise TandemError(f"python -m {module} (pid {child.pid}): {ending_in_words(status)}.")
    return status


def ending_in_words(status: int) -> str:
    """How a child ended that had nothing to say about it."""
    words = status_in_words(status)
    if status == -signal.SIGKILL:
        words += ", most often because the system ran out of memory; see dmesg"
    return words


def foreground_main(work: Callable[[list[str]], int]) -> int:
    """The outermost lines of such a child: every expected error is a sentence."""
    guard_worker()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        return work(sys.argv[1:])
    except TandemError as error:
        print(f"❌ {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED


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
