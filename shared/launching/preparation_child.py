"""Runs the preparation as a child process and shows how far it is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from shared.console.progress_line import ProgressLine
from shared.errors import DataError, TandemError
from shared.launching.foreground_child import ending_in_words
from shared.run.directory import RunDirectory
from shared.task.registry import DEFAULT
from shared.worker.child_environment import child_environment, python_command
from shared.worker.contract import trouble_of
from shared.worker.preparation_lines import Looking, NotPrepared, Prepared, decode


def prepare_run(
    run: RunDirectory,
    say: Callable[[str], None],
    live: bool = False,
    task: str = DEFAULT,
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Prepared:
    """Write the run's index and quarantine; returns what the preparation says of them.

    `live`: how far it is may be shown on a line that is rewritten, where there is a terminal.
    `on_progress` is told the same: what is done, how much of it, of how much.

    Raises:
        DataError: the data set can't be used, and why.
        TandemError: the preparation itself broke off.
    """
    arguments = python_command("-m", "data_worker.preparation", "--run", str(run.path))
    arguments += ["--task", task]
    log_path = run.log_of("preparation")
    with open(log_path, "wb") as log:
        child = subprocess.Popen(
            arguments,
            env=child_environment({"CUDA_VISIBLE_DEVICES": ""}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    events = child.stdout
    assert events is not None  # a pipe
    shown = ProgressLine(sys.stdout, say, live)
    prepared: Prepared | None = None
    try:
        for line in events:
            told = decode(line)
            if isinstance(told, Looking):
                shown.show(told.done, told.total, told.what)
                on_progress(told.what, told.done, told.total)
            elif isinstance(told, Prepared):
                shown.clear()
                prepared = told
            elif isinstance(told, NotPrepared):
                shown.clear()
                child.wait()
                raise DataError(told.message)
        status = child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise
    finally:
        shown.clear()
        events.close()
    if prepared is None or status != 0:
        words = f"the preparation ended: {ending_in_words(status)}. Its log is {log_path}"
        raise TandemError(words, trouble_of(status))
    return prepared


def rewrite_identity(run: RunDirectory, task: str) -> None:
    """Write down that the run goes on with its task as that is now.

    Raises:
        DataError: the task can't be used, and why.
    """
    child = subprocess.run(
        python_command(
            "-m", "data_worker.preparation", "--run", str(run.path), "--task", task,
            "--identity-only",
        ),
        env=child_environment({"CUDA_VISIBLE_DEVICES": ""}),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
    )  # fmt: skip
    for line in child.stdout.splitlines():
        told = decode(line)
        if isinstance(told, NotPrepared):
            raise DataError(told.message)
    if child.returncode:
        raise TandemError(f"the task could not be looked at: {ending_in_words(child.returncode)}.")
