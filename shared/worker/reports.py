"""What a worker tells the launcher: its phase, its progress, its numbers, its failure.

One JSON object a line through a pipe that the launcher made. A worker that was started by hand has
no pipe: what it would have the launcher say, it says itself.

A launcher whose terminal is held (Ctrl-S, a pager) does not read. The pipe then fills up, and what
the next report of its kind replaces is left out; the rest waits here.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections import deque
from typing import Any

from shared.worker.contract import PIPE_VARIABLE

_REPLACEABLE = frozenset({"busy", "metrics", "progress"})
_LAST_WORDS = frozenset({"cause", "failure"})
_LAST_WORDS_S = 2.0  # that a worker waits before it ends unheard
_MOST_WAITING = 1000  # lines; who said more than that has been unheard for hours


class Reporter:
    """Writes reports; never blocks the worker for long, never fails it."""

    def __init__(self, descriptor: int | None):
        """`descriptor`: of a pipe that does not block, or whose reader never stops reading."""
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque(maxlen=_MOST_WAITING)
        self._begun = b""  # what is missing of a line whose beginning is in the pipe

    @classmethod
    def from_environment(cls) -> Reporter:
        value = os.environ.get(PIPE_VARIABLE)
        return cls(int(value) if value else None)

    def tell(self, kind: str, **fields: Any) -> None:
        if self._descriptor is None:
            return
        line = json.dumps({"kind": kind, "time": time.time(), **fields}).encode() + b"\n"
        until_s = time.monotonic() + (_LAST_WORDS_S if kind in _LAST_WORDS else 0.0)
        with self._lock:
            try:
                if not self._write_waiting(until_s) and kind in _REPLACEABLE:
                    return
                self._waiting.append(line)
                if not self._write_waiting(until_s) and kind in _REPLACEABLE:
                    self._waiting.clear()  # it alone: all before it is written
            except OSError:
                self._descriptor = None  # the launcher is gone, and so are we in a moment

    def _write_waiting(self, until_s: float) -> bool:
        """Write what waits as far as it goes; False when the pipe is full."""
        while self._begun or self._waiting:
            line = self._begun or self._waiting[0]
            try:
                count = os.write(self._descriptor, line)
            except BlockingIOError:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    return False
                room = select.poll()
                room.register(self._descriptor, select.POLLOUT)
                room.poll(left_s * 1000)
                continue
            if not self._begun:
                self._waiting.popleft()
            self._begun = line[count:]
        return True

    def phase(self, name: str, deadline_s: float) -> None:
        """Declare a phase: silence or a standing counter for longer than this is a hang."""
        self.tell("phase", name=name, deadline_s=deadline_s)

    def progress(self, count: int) -> None:
        self.tell("progress", count=count)

    def say(self, text: str) -> None:
        """A line that belongs on the user's terminal."""
        try:
            print(text, flush=True)
        except OSError:
            pass  # a log on a full disk is no reason to end a run
        self.tell("say", text=text)

    def cause(self, words: str, will_pass: bool) -> None:
        """Why this worker is about to end, and whether its replacement may have more luck."""
        self.tell("cause", message=words, will_pass=will_pass)

    def failure(self, message: str) -> None:
        """Why the run can't go on."""
        self.tell("failure", message=message)
