"""What a worker tells the launcher: its phase, its progress, its numbers, its failure.

Each kind of report is a dataclass, and one line through a pipe that the launcher made. A worker that
was started by hand has no pipe: what it would have the launcher say, it says itself.

A launcher whose terminal is held (Ctrl-S, a pager) does not read. The pipe then fills up, and what
the next report of its kind replaces is left out; the rest waits here.
"""

from __future__ import annotations

import enum
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shared.devices.device_facts import DeviceFacts
from shared.devices.gpus import COMPILES_KERNELS_VARIABLE, COMPILING_DEADLINE_S
from shared.errors import Trouble
from shared.run.typed_lines import decoder, encode
from shared.worker.contract import (
    CLOSING,
    COMPILING,
    PIPE_VARIABLE,
    SERVING,
    STANDING_BY,
    STARTING,
    TRAINING,
    WAITING,
)


class LineKind(enum.StrEnum):
    """What a line of the run's story is, for those who show it."""

    STORY = "story"
    STEP = "step"  # how far the run is; a live view shows that itself
    LEFT_OUT = "left out"  # one more example is not used any more


@dataclass(frozen=True)
class Phase:
    """What a worker is at. Silence or a standing counter for longer than the deadline is a hang."""

    name: str
    deadline_s: float


@dataclass(frozen=True)
class Progress:
    """How far a worker is: the one report that shows that work is done."""

    count: int


@dataclass(frozen=True)
class Said:
    """A line that belongs on the user's terminal."""

    text: str
    kind_of_line: LineKind = LineKind.STORY


@dataclass(frozen=True)
class Busy:
    """A worker's device over the last second, and what it holds, as far as its driver says."""

    share: float | None
    memory_mb: int = 0  # 0: nobody says
    cached: int = 0  # of a data worker: examples whose features need not be made again
    to_cache: int = 0  # of so many
    queue_depth: int | None = None  # of the model worker


@dataclass(frozen=True)
class Outlook:
    """What is left of the epoch and of the run, and what the run waits for."""

    epoch_done: float
    epoch_left_s: float
    total_steps: int
    total_is_estimate: bool
    left_s: float
    steps_per_s: float | None  # None while it is not known
    verdict: str  # in words; empty while nothing is known
    is_waiting: bool  # whether the verdict names something
    remark: str = ""  # what else is worth knowing, such as overfitting


@dataclass(frozen=True)
class Metrics:
    """A line of metrics.jsonl; with an outlook where it is that of a step."""

    record: dict[str, Any]
    outlook: Outlook | None = None


@dataclass(frozen=True)
class Cause:
    """Why this worker is about to end, and whether its replacement may have more luck."""

    message: str
    will_pass: bool
    trouble: Trouble = Trouble.OTHER


@dataclass(frozen=True)
class Failure:
    """Why the run can't go on."""

    message: str
    trouble: Trouble = Trouble.OTHER


@dataclass(frozen=True)
class Convicted:
    """Rows of the index whose files crash a decoder: its predecessor's death counts for nothing."""

    rows: tuple[int, ...]


@dataclass(frozen=True)
class Placed:
    """On which host a worker lives, where that may be another than the launcher's."""

    host: str


@dataclass(frozen=True)
class Device:
    """Of a check: what a process sees of its device."""

    facts: DeviceFacts


@dataclass(frozen=True)
class Forward:
    """Of a check: how a forward pass went."""

    finite: bool
    device: str  # where its result lies
    num_parameters: int
    build_ms: float
    forward_ms: float


@dataclass(frozen=True)
class Compared:
    """Of a check: how far what a device computed is from what the CPU computed, by array."""

    deviations: dict[str, float]  # as beside_cpu has them


@dataclass(frozen=True)
class Sent:
    """Of a check: the arrays that the data process made, and where."""

    sha256: str
    device: str


@dataclass(frozen=True)
class Arrived:
    """Of a check: the same arrays on the model process's device."""

    sha256: str
    device: str
    num_bytes: int
    copy_ms: float


@dataclass(frozen=True)
class Pace:
    """Of a measurement: how fast one side is, or both in turns."""

    what: str  # sequential, data or model
    measured: dict[str, Any]  # as PaceMeter has it


Report = (
    Phase | Progress | Said | Busy | Metrics | Cause | Failure | Convicted | Placed
    | Device | Forward | Compared | Sent | Arrived | Pace
)  # fmt: skip

decode = decoder(Report.__args__)  # a line to its report; None for any other line

_REPLACEABLE = (Busy, Metrics, Progress)
_LAST_WORDS = (Cause, Failure)
# The first step of a shape is `compiling`, and features are computed in a phase of their own.
_MEETS_NO_KERNELS = (TRAINING, SERVING, WAITING, STANDING_BY, CLOSING)
_LAST_WORDS_S = 2.0  # that a worker waits before it ends unheard
_MOST_WAITING = 1000  # lines; who said more than that has been unheard for hours


class Reporter:
    """Writes reports; never blocks the worker for long, never fails it."""

    def __init__(self, descriptor: int | None, compiles_kernels: bool = False):
        """`descriptor`: of a pipe that does not block, or whose reader never stops reading.

        `compiles_kernels`: the GPU's driver has to compile TensorFlow's kernels when it meets them.
        """
        self._descriptor = descriptor
        self._compiles_kernels = compiles_kernels
        self._entered: set[str] = set()  # phases
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque(maxlen=_MOST_WAITING)
        self._begun = b""  # what is missing of a line whose beginning is in the pipe
        self.listener: Callable[[Report], None] | None = None  # in this process, beside the pipe

    @classmethod
    def from_environment(cls) -> Reporter:
        value = os.environ.get(PIPE_VARIABLE)
        return cls(int(value) if value else None, bool(os.environ.get(COMPILES_KERNELS_VARIABLE)))

    def tell(self, report: Report) -> None:
        if self.listener is not None:
            self.listener(report)
        descriptor = self._descriptor
        if descriptor is None:
            return
        line = encode(report)
        is_replaceable = isinstance(report, _REPLACEABLE)
        until_s = time.monotonic() + (_LAST_WORDS_S if isinstance(report, _LAST_WORDS) else 0.0)
        with self._lock:
            try:
                if not self._write_waiting(descriptor, until_s) and is_replaceable:
                    return
                self._waiting.append(line)
                if not self._write_waiting(descriptor, until_s) and is_replaceable:
                    self._waiting.clear()  # it alone: all before it is written
            except OSError:
                self._descriptor = None  # the launcher is gone, and so are we in a moment

    def _write_waiting(self, descriptor: int, until_s: float) -> bool:
        """Write what waits as far as it goes; False when the pipe is full."""
        while self._begun or self._waiting:
            line = self._begun or self._waiting[0]
            try:
                count = os.write(descriptor, line)
            except BlockingIOError:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    return False
                room = select.poll()
                room.register(descriptor, select.POLLOUT)
                room.poll(left_s * 1000)
                continue
            if not self._begun:
                self._waiting.popleft()
            self._begun = line[count:]
        return True

    def phase(self, name: str, deadline_s: float) -> None:
        """Enter a phase. The first time in each, kernels may be met that are not compiled yet."""
        if self._compiles_kernels and name not in self._entered and name not in _MEETS_NO_KERNELS:
            deadline_s = max(deadline_s, COMPILING_DEADLINE_S)
            self.tell(Phase(COMPILING if name == STARTING else name, deadline_s))
        else:
            self.tell(Phase(name, deadline_s))
        self._entered.add(name)

    def progress(self, count: int) -> None:
        self.tell(Progress(count))

    def say(self, text: str, kind: LineKind = LineKind.STORY) -> None:
        """A line that belongs on the user's terminal."""
        try:
            print(text, flush=True)
        except OSError:
            pass  # a log on a full disk is no reason to end a run
        self.tell(Said(text, kind))
