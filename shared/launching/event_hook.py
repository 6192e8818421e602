"""--on-event: a command of the user's that is told what happens, and can do nothing to the run.

It is one process that reads a line of JSON for each event and ends when its input does. One for each
event would import a tracker's library again for every logged step, on the cores that train.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.errors import InputError
from shared.worker.contract import status_in_words

_MOST_WAITING = 2000  # events; what comes when so many wait is left out
_READS_WITHIN_S = 30.0  # or it hangs
_DIES_WITHIN_S = 2.0  # of SIGTERM
_MOST_FAILURES = 3
_NICE = 10  # it gives way to the training


def words_of(command: str) -> list[str]:
    """The words of a command line; no shell reads them.

    Raises:
        InputError: it can't be one, or there is no such program.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"--on-event {command!r}: can't be read ({error}).") from None
    if not words or shutil.which(words[0]) is None:
        raise InputError(
            f"--on-event: there is no program {words[0] if words else ''!r}. Name one that can be "
            "run, such as 'python track.py'."
        )
    return words


class EventHook:
    """Tells the command, from a thread of its own. Nothing here waits for the command but that."""

    def __init__(
        self,
        command: str,
        log: Path,
        say: Callable[[str], None],
        reads_within_s: float = _READS_WITHIN_S,
    ):
        """`log` gets what the command prints; `say` is told once of each way in which it fails."""
        self._words, self._log, self._say = words_of(command), log, say
        self._reads_within_s = reads_within_s
        self._waiting: queue.Queue[bytes | None] = queue.Queue(_MOST_WAITING)
        self._process: subprocess.Popen[bytes] | None = None
        self._failures = 0
        self._left_out = 0
        self._no_more, self._is_closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="on-event", daemon=True)
        self._thread.start()

    def tell(self, event: dict[str, Any]) -> None:
        """Have the command told, as soon as it reads; it is left out where too much waits."""
        try:
            self._waiting.put_nowait(json.dumps(event, default=str).encode() + b"\n")
        except queue.Full:
            self._left_out += 1

    def close(self, patience_s: float) -> None:
        """No more is to come: wait so long for the command to end, then end it."""
        until_s = time.monotonic() + patience_s
        self._no_more.set()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)  # to wake the thread up, if it waits
        self._thread.join(patience_s)
        self._is_closed.set()
        process = self._process
        if process is not None:
            self._end(process, max(0.0, until_s - time.monotonic()))
        if self._left_out:
            self._say(f"⚠️  --on-event: {self._left_out} events were left out; too many waited")

    def _run(self) -> None:
        while self._failures < _MOST_FAILURES:
            line = self._waiting.get()
            if line is None:
                break
            try:
                self._write(line)
            except OSError as error:
                self._note_failure(error.strerror or str(error))
            if self._no_more.is_set() and self._waiting.empty():
                break
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()

    def _write(self, line: bytes) -> None:
        """Raises OSError where the command can't be started, does not read, or has ended."""
        process = self._process
        if process is None or process.poll() is not None:
            if self._is_closed.is_set():
                return
            if process is not None and process.returncode:
                self._note_failure(status_in_words(process.returncode))
                if self._failures >= _MOST_FAILURES:
                    return
            process = self._start()
        assert process.stdin is not None
        descriptor = process.stdin.fileno()
        until_s = time.monotonic() + self._reads_within_s
        room = select.poll()
        room.register(descriptor, select.POLLOUT)
        while line:
            try:
                line = line[os.write(descriptor, line) :]
            except BlockingIOError:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    self._end(process, 0.0)
                    self._process = None
                    words = f"it has not read for {self._reads_within_s:.0f} s and was ended"
                    raise TimeoutError(0, words) from None
                room.poll(min(left_s, 0.5) * 1000)

    def _start(self) -> subprocess.Popen[bytes]:
        with open(self._log, "ab") as log:
            process = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        self._process = process
        return process

    def _note_failure(self, words: str) -> None:
        self._failures += 1
        last = self._failures >= _MOST_FAILURES
        after = "it is not started again" if last else "it is started again with the next event"
        self._say(f"⚠️  --on-event: {words}; {after}, and the run goes on (see {self._log.name})")

    def _end(self, process: subprocess.Popen[bytes], patience_s: float) -> None:
        """Wait so long for it, then end it and all that it has started."""
        for number, within_s in ((None, patience_s), (signal.SIGTERM, _DIES_WITHIN_S),
                                 (signal.SIGKILL, _DIES_WITHIN_S)):  # fmt: skip
            if number is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(within_s)
                if number is None:
                    return
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
