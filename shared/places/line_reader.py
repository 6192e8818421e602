"""Lines out of a pipe that nobody waits on."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

_READ_BYTES = 1 << 16
_MAX_LINE_BYTES = 1 << 20


class LineReader:
    """Cuts what comes out of a pipe into lines, keeping at most one unfinished line."""

    def __init__(self, descriptor: int, on_line: Callable[[str], None]):
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.is_closed = False  # then the number is anyone's, and may be that of the next child
        self._on_line = on_line
        self._rest = b""

    def read(self) -> bool:
        """Read what is there; False when the other end is closed."""
        try:
            chunk = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return True
        if not chunk:
            if self._rest:
                self._on_line(self._rest.decode("utf-8", "replace"))
            self.close()
            return False
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[-_MAX_LINE_BYTES:]
        for line in lines:
            self._on_line(line.decode("utf-8", "replace"))
        return True

    def drain(self) -> None:
        """Read what is left of a child that has ended, and close."""
        while not self.is_closed and select.select([self.descriptor], [], [], 0)[0]:
            self.read()
        self.close()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            os.close(self.descriptor)
