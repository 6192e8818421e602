"""What the launcher knows of a worker: what it is at, how it has fared, whether it may start again."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Literal

from shared.errors import Trouble
from shared.launching.events_and_actions import Finish
from shared.worker.contract import STARTING, status_in_words, trouble_of

RESTART_WINDOW_S = 600.0
STARTING_S = 180.0
MODEL_ROLES = ("model", "replica")
_BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)


@dataclasses.dataclass(frozen=True)
class EndCause:
    """Why a worker ended."""

    words: str
    trouble: Trouble = Trouble.OTHER

    @classmethod
    def of_status(cls, status: int) -> EndCause:
        return cls(status_in_words(status), trouble_of(status))

    def of_worker(self, name: str) -> EndCause:
        return EndCause(f"{name}: {self.words}", self.trouble)


@dataclasses.dataclass
class WatchedWorker:
    """One name of a worker, with whatever processes have borne it."""

    # A replica is a model worker beside the first one.
    role: Literal["data", "spare", "model", "replica"]
    state: Literal["backing-off", "running", "dumping", "stopping", "ended"] = "backing-off"
    due_s: float = 0.0  # when the state's own deadline is over
    phase: str = STARTING
    allowed_s: float = STARTING_S
    heard_s: float = 0.0
    stopped_since_s: float | None = None
    killed_s: float | None = None  # the first SIGKILL
    count: int = 0  # of its progress, and since when it has not changed
    moved_s: float = 0.0
    failure: EndCause | None = None  # of the run, as this worker has it
    cause: EndCause | None = None  # of its end, in its own words
    last_cause: str = ""  # the same, of whichever process before it had any
    same_causes: int = 0  # in a row, without getting further between them
    furthest: int = 0  # that any of its processes got
    suspects: tuple[int, ...] = ()  # until its replacement has looked at them
    at_work: bool = False  # it has reported progress since it was started
    num_fruitless: int = 0  # deaths in a row before it got to work
    # Causes of deaths in a row without getting further between them.
    in_vain: list[EndCause] = dataclasses.field(default_factory=list)
    # When and why, oldest first.
    deaths: deque[tuple[float, EndCause]] = dataclasses.field(default_factory=deque)

    def begin(self, now_s: float) -> None:
        """A new process bears the name."""
        self.state, self.heard_s, self.at_work, self.cause = "running", now_s, False, None
        self.stopped_since_s = self.killed_s = None
        self.count, self.moved_s = 0, now_s
        self.phase, self.allowed_s = STARTING, STARTING_S

    def note_progress(self, count: int, now_s: float) -> None:
        self.at_work, self.suspects = True, ()
        if count != self.count:
            self.count, self.moved_s = count, now_s
        # A data worker counts from its own start, the model worker through the run.
        if count > (self.furthest if self.role in MODEL_ROLES else 0):
            self.in_vain.clear()
        if count > self.furthest:
            self.furthest, self.same_causes = count, 0

    def note_cause(self, cause: EndCause, will_pass: bool) -> None:
        """Keep what a worker says of its own end, which is about to come."""
        is_known = cause.words == self.last_cause and not will_pass
        self.cause, self.last_cause = cause, cause.words
        self.same_causes = self.same_causes + 1 if is_known else 1

    def note_death(self, cause: EndCause, now_s: float) -> None:
        self.num_fruitless = 0 if self.at_work else self.num_fruitless + 1
        self.in_vain.append(cause)
        self.deaths.append((now_s, cause))
        while now_s - self.deaths[0][0] > RESTART_WINDOW_S:
            self.deaths.popleft()

    def forgive_last_death(self) -> None:
        if self.deaths:
            self.deaths.pop()
        if self.in_vain:
            self.in_vain.pop()

    def forgive_sleep(self, slept_s: float, now_s: float) -> None:
        """For so long nobody heard what it may have said."""
        self.heard_s = min(now_s, self.heard_s + slept_s)
        self.moved_s = min(now_s, self.moved_s + slept_s)
        if self.killed_s is not None:
            self.killed_s = min(now_s, self.killed_s + slept_s)
        self.stopped_since_s = None  # until it is looked at again

    def why_it_ended(self, status: int) -> EndCause:
        """Its own words for its end where it had any, else what the system says."""
        return self.cause or EndCause.of_status(status)

    def has_died_too_often(self, name: str, max_restarts: int) -> Finish | None:
        """Why it is not started again, or nothing while it may be."""
        if len(self.deaths) > max_restarts:
            count, first = len(self.deaths), self.deaths[0][1]
            often = f"{count} times within {RESTART_WINDOW_S / 60:g} minutes"
        elif len(self.in_vain) > max_restarts:
            count, first = len(self.in_vain), self.in_vain[0]
            often = f"{count} times without getting any further"
        else:
            return None
        allowed = f"more than --max-restarts {max_restarts} allows"
        words = f"{name} ended {often}, {allowed}. First cause: {first.words}"
        return Finish(1, words, first.trouble)

    @property
    def delay_s(self) -> float:
        """How long its next start waits: longer while it does not even get to work."""
        num_counting = min(self.num_fruitless, len(self.deaths), len(_BACKOFF_S))
        return _BACKOFF_S[max(0, num_counting - 1)]
