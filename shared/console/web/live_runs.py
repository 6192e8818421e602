"""The runs that a page shows, read no oftener than is worth it, however many look."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from shared.console.run_story import RunStory, StoryReader
from shared.errors import InputError
from shared.run.directory import RunDirectory
from shared.status.run_state import RunState
from shared.status.summary import RunSummary, runs_below, summary_of
from shared.status.watched import Watched

_STATE_EVERY_S = 0.5
_STORY_EVERY_S = 2.0
_SUMMARY_EVERY_S = 10.0  # it counts the bytes of every file
_FOLDER_EVERY_S = 5.0
_SHARE = 0.03  # of a core, at most, that reading one thing may take in the long run
_MOST_RUNS = 200
_MOST_STEPS = 5000  # logged ones, of which a screen has columns for a tenth

T = TypeVar("T")
Marks = tuple[tuple[str, int, int], ...]


class Kept(Generic[T]):
    """A value that takes time to make: made again at most so often, and seldom where it is dear."""

    def __init__(
        self, make: Callable[[], T], every_s: float, now: Callable[[], float] = time.monotonic
    ):
        self._make, self._every_s, self._now = make, every_s, now
        self._lock = threading.Lock()
        self._value: T | None = None
        self._next_s: float | None = None
        self.version = 0  # counts the values that differ

    def value(self) -> T:
        with self._lock:
            begun_s = self._now()
            if self._next_s is None or begun_s >= self._next_s:
                made = self._make()
                if self._next_s is None or made != self._value:
                    self.version += 1
                self._value = made
                ended_s = self._now()
                self._next_s = ended_s + max(self._every_s, (ended_s - begun_s) / _SHARE)
            return self._value  # type: ignore[return-value]  # made above


class LiveRun:
    """One run, as a page shows it."""

    def __init__(self, path: Path):
        self.directory = RunDirectory(path)
        watched, reader = Watched(self.directory), StoryReader(path, _MOST_STEPS)
        self._state = Kept(watched.look, _STATE_EVERY_S)
        self._summary = Kept(lambda: summary_of(self.directory), _SUMMARY_EVERY_S)
        self._reader = reader
        self._told: tuple[Marks, RunStory | None] = ((), None)
        self._story = Kept(self._read, _STORY_EVERY_S)

    @property
    def name(self) -> str:
        return self.directory.path.resolve().name

    @property
    def is_there(self) -> bool:
        """Whether it is a run still: it may have been moved, or deleted."""
        return self.directory.config.is_file()

    def state(self) -> RunState:
        return self._state.value()

    def summary(self) -> RunSummary:
        return self._summary.value()

    def story(self) -> RunStory | None:
        """None where there is no run any more."""
        return self._story.value()[1]

    @property
    def version(self) -> int:
        """Another one means another story, or other samples."""
        self._story.value()
        return self._story.version

    def _read(self) -> tuple[Marks, RunStory | None]:
        marks = self._marks()
        if marks != self._told[0]:
            try:
                self._told = marks, self._reader.read()
            except InputError:
                self._told = marks, None
        return self._told

    def _marks(self) -> Marks:
        """What differs as soon as anything does that the story or the samples are made from."""
        run = self.directory
        files = (run.config, run.metrics, run.events, run.quarantine, run.environment)
        try:
            folders = sorted(run.samples.iterdir())
        except OSError:
            folders = []
        return tuple(map(_mark_of, (*files, *folders)))


def _mark_of(path: Path) -> tuple[str, int, int]:
    try:
        found = path.stat()
    except OSError:
        return path.name, 0, -1
    return path.name, found.st_mtime_ns, found.st_size


class LiveRuns:
    """Those that were named, and those that are found in folders that were named."""

    def __init__(self, paths: Sequence[Path]):
        self._paths = paths
        self._runs: dict[Path, LiveRun] = {}
        self._found = Kept(self._look, _FOLDER_EVERY_S)

    def all(self) -> list[LiveRun]:
        """Each keeps its place in the list; new ones come last."""
        return self._found.value()

    def _look(self) -> list[LiveRun]:
        for named in self._paths:
            for path in runs_below(named):
                if len(self._runs) < _MOST_RUNS and path not in self._runs:
                    self._runs[path] = LiveRun(path)
        return list(self._runs.values())
