"""What the training loop is at, as the launcher is told: a hang is what passes its deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

from model_worker.stream.receiver import Receiver
from shared.worker.contract import (
    CLOSING,
    COMPILING,
    SHOWING,
    TRAINING,
    WAITING,
    WAITING_FOR_REPLICAS,
)
from shared.worker.reports import Reporter

_TRAINING_DEADLINE_S = 60.0
# Of the slowest batch so far: minutes a batch are no hang where a batch takes minutes. The first
# of a shape may hold a compilation that does not come again, and says less.
_BATCHES_IN_DEADLINE, _FIRST_BATCHES_IN_DEADLINE = 20.0, 3.0
_WAITING_DEADLINE_S = 60.0  # of the receiving thread, which may have to wait for a busy disk
_COMPILING_DEADLINE_S = 1800.0
_REST_DEADLINE_S = 600.0
_REPORT_EVERY_S = 1.0
NO_DEADLINE_S = 0.0


class Liveness:
    """Declares the loop's phases, and reports once a second that it moves."""

    def __init__(self, reporter: Reporter, sample_busy: Callable[[], None]):
        """`sample_busy` looks at how busy the device is, as often as progress is told."""
        self._reporter = reporter
        self._sample_busy = sample_busy
        self._declared = ("", 0.0)  # phase and its deadline
        self._training_deadline_s = _TRAINING_DEADLINE_S
        self._told_s = 0.0
        self._turns_told = -1  # of the receiving thread

    def waits(self, receiver: Receiver, cursor: int) -> None:
        """That this thread waits shows nothing: a batch can come only while the receiver works."""
        self._enter(WAITING, _WAITING_DEADLINE_S)
        if receiver.num_turns != self._turns_told:
            self._turns_told = receiver.num_turns
            self.moved(cursor)

    def waits_for_replicas(self, cursor: int) -> None:
        """They have deadlines of their own."""
        self._enter(WAITING_FOR_REPLICAS, NO_DEADLINE_S)
        self.moved(cursor)

    def compiles(self) -> None:
        self._enter(COMPILING, _COMPILING_DEADLINE_S)

    def trains(self) -> None:
        self._enter(TRAINING, self._training_deadline_s)

    def validates(self) -> None:
        self._enter("validating", _REST_DEADLINE_S)

    def saves(self) -> None:
        self._enter("saving", _REST_DEADLINE_S)

    def shows(self) -> None:
        """Samples are made of what is saved."""
        self._enter(SHOWING, _REST_DEADLINE_S)

    def closes(self) -> None:
        self._enter(CLOSING, _REST_DEADLINE_S)

    def moved(self, cursor: int) -> None:
        """The loop is at this batch of the stream."""
        now_s = time.monotonic()
        if now_s - self._told_s >= _REPORT_EVERY_S:
            self._told_s = now_s
            self._reporter.progress(cursor)
            self._sample_busy()

    def allow_for(self, seconds: float, is_first: bool) -> None:
        """A batch, with what is logged after it, took so long: its like is given time enough."""
        times = _FIRST_BATCHES_IN_DEADLINE if is_first else _BATCHES_IN_DEADLINE
        self._training_deadline_s = max(self._training_deadline_s, times * seconds)

    def _enter(self, phase: str, deadline_s: float) -> None:
        if (phase, deadline_s) != self._declared:
            self._declared = phase, deadline_s
            self._reporter.phase(phase, deadline_s)
