"""Commands that need TensorFlow run as a child of the launcher, on the same terminal."""

from __future__ import annotations

import signal
import subprocess

from shared.errors import TandemError
from shared.worker.child_environment import child_environment, python_command
from shared.worker.contract import status_in_words


def run_in_foreground(module: str, arguments: list[str]) -> int:
    """Run `python -m module` to its end and return its exit code.

    Raises:
        TandemError: a signal ended it.
    """
    child = subprocess.Popen(python_command("-m", module, *arguments), env=child_environment({}))
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
