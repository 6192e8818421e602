"""What a worker tells the launcher: its phase, its progress, its numbers, its failure.

One JSON object a line through a pipe that the launcher made. A worker that was started by hand has
no pipe: what it would have the launcher say, it says itself.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

PIPE_VARIABLE = "TANDEM_REPORT_FD"


class Reporter:
    """Writes reports; never blocks the worker for long, never fails it."""

    def __init__(self, descriptor: int | None):
        self._descriptor = descriptor
        self._lock = threading.Lock()

    @classmethod
    def from_environment(cls) -> Reporter:
        value = os.environ.get(PIPE_VARIABLE)
        return cls(int(value) if value else None)

    def tell(self, kind: str, **fields: Any) -> None:
        if self._descriptor is None:
            return
        line = json.dumps({"kind": kind, "time": time.time(), **fields}) + "\n"
        with self._lock:
            try:
                os.write(self._descriptor, line.encode())
            except OSError:
                self._descriptor = None  # the launcher is gone, and so are we in a moment

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
