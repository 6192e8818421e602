"""How far a preparation is: one line that is rewritten, or a line now and then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TextIO

_SAID_EVERY_S = 10.0
_SHOWN_EVERY_S = 0.1


def can_rewrite(stream: TextIO | None) -> bool:
    """True on a terminal that moves its cursor; in CI lines are kept, even where there is one."""
    return (
        stream is not None
        and stream.isatty()
        and os.environ.get("TERM") not in (None, "dumb")
        and os.environ.get("CI", "").lower() in ("", "0", "false")
    )


def can_draw(stream: TextIO | None) -> bool:
    """True on such a terminal that has the letters of the live view."""
    encoding = (getattr(stream, "encoding", "") or "").lower()
    return can_rewrite(stream) and encoding in ("utf-8", "utf8")


def progress_line(what: str, done: int, total: int, columns: int) -> str:
    """What is being done, a bar where there is room for one, and how far it is."""
    count = f" {done:,}/{total:,}" if total else ""
    words = f"   {what}"
    room = min(40, columns - len(words) - len(count) - 2)
    if total and room >= 8:
        filled = room * done // total
        words += " " + "█" * filled + "░" * (room - filled)
    return (words[: max(0, columns - 1 - len(count))] + count)[: max(0, columns - 1)]


class ProgressLine:
    """One line that is rewritten on a terminal; elsewhere a line now and then, if it takes long."""

    def __init__(self, stream: TextIO | None, say: Callable[[str], None], live: bool = True):
        """`say` takes the lines that stay. Without `live` there are no others."""
        self._terminal = stream if live and can_rewrite(stream) else None
        self._say = say
        self._shown_s, self._dirty = 0.0, False
        self._said_s = time.monotonic()

    def show(self, done: int, total: int, what: str) -> None:
        now_s = time.monotonic()
        if self._terminal is not None:
            if done == total or now_s - self._shown_s >= _SHOWN_EVERY_S:
                columns = os.get_terminal_size(self._terminal.fileno()).columns or 80
                self._terminal.write(f"\r\x1b[K{progress_line(what, done, total, columns)}")
                self._terminal.flush()
                self._shown_s, self._dirty = now_s, True
        elif now_s - self._said_s >= _SAID_EVERY_S:
            self._said_s = now_s
            self._say(progress_line(what, done, total, 60))

    def clear(self) -> None:
        if self._terminal is not None and self._dirty:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()
            self._dirty = False
