"""A run that is looked at again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.run.directory import RunDirectory
from shared.status.run_state import RunState, look_at
from shared.status.status_file import read_status


class Watched:
    """Knows for how long a run's status has stood still, by the watcher's own clock."""

    def __init__(self, run: RunDirectory, now: Callable[[], float] = time.monotonic):
        self._run, self._now = run, now
        self._seen: tuple[str, int] | None = None
        self._since_s = now()
        self._has_moved = False

    def look(self) -> RunState:
        """How the run is now."""
        status = read_status(self._run)
        seen = (status.session, status.beat) if status is not None else None
        if seen != self._seen:
            self._has_moved = self._seen is not None
            self._seen, self._since_s = seen, self._now()
        # What has never moved may have stood for long before: then its own time counts.
        silent_s = self._now() - self._since_s if self._has_moved else None
        return look_at(self._run, silent_s=silent_s)
