"""The status of a run that goes on: everything that a view of it shows, as plain values.

The launcher keeps it (see `status_keeper`), shows it on its own terminal, and writes it into the run
directory, from where any number of watchers draw the same.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from shared.run.event_log import Ended
from shared.status.presence import Presence
from shared.worker.contract import STARTING
from shared.worker.reports import LineKind, Outlook

HISTORY_S = 120  # of the busy shares, one a second


@dataclasses.dataclass(frozen=True)
class LaneStatus:
    """One process's side: its busy share over time, its memory, what it is doing."""

    worker: str
    phase: str = STARTING
    since_s: float = 0.0  # time.time() at which it entered the phase
    shares: tuple[float, ...] = ()  # one a second, the latest last
    memory_mb: int = 0
    cached: int = 0  # examples whose features need not be made again
    to_cache: int = 0  # of so many
    queue_depth: int | None = None  # of a replica after the first: of its own queue
    host: str = ""  # where it lives, if that may be another than the launcher's


@dataclasses.dataclass(frozen=True)
class Preparing:
    """How far the look at the data is."""

    what: str = ""
    done: int = 0
    total: int = 0  # 0: not known


@dataclasses.dataclass(frozen=True)
class StoryLine:
    """A line that was said."""

    number: int  # of this start of the run, from 1
    time_s: float
    text: str
    kind_of_line: LineKind


@dataclasses.dataclass(frozen=True)
class RunStatus:
    """A run at one moment. Times are time.time() of the process that keeps it."""

    session: str  # of this start of the run; another start has another
    presence: Presence  # the process that keeps it
    takes_signals: bool  # whether SIGTERM makes that process save and end
    started_s: float
    written_s: float
    beat: int  # counts what was written, so that it is seen to go on whatever the clocks say
    buffer_size: int
    data_device: str = "GPU"
    model_device: str = "GPU"
    preparing: Preparing | None = None  # None: it has been done
    lanes: tuple[LaneStatus, ...] = ()  # by name
    record: dict[str, Any] = dataclasses.field(default_factory=dict)  # of the last logged step
    outlook: Outlook | None = None
    told_s: float = 0.0  # when that record came
    queue_depth: int = 0
    loss: float | None = None  # the last that was finite
    loss_trend: str = ""
    val_loss: float | None = None
    left_out: int = 0
    restarts: int = 0
    lines: tuple[StoryLine, ...] = ()  # the last ones
    is_stopping: bool = False
    ended: Ended | None = None


class ShownLines:
    """Which of a run's lines have been shown."""

    def __init__(self, status: RunStatus):
        """Those that it has were."""
        self._session, self._last = "", 0
        self.new_lines(status)

    def new_lines(self, status: RunStatus) -> list[StoryLine]:
        """Those that have not; they count as shown from now on."""
        if status.session != self._session:
            self._session, self._last = status.session, 0
        new = [line for line in status.lines if line.number > self._last]
        self._last = new[-1].number if new else self._last
        return new
