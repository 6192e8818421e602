"""What a launcher asks of wherever its workers live: to start one, and what it does with it then."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from shared.places.line_reader import LineReader
from shared.worker.reports import Report, decode

TakeReport = Callable[[str, Report], None]  # whose it is, and what it has told


@dataclasses.dataclass(frozen=True)
class WorkerOrder:
    """A worker that is to be started."""

    name: str
    role: str  # data or model
    arguments: tuple[str, ...]  # of Python
    environment: dict[str, str]
    log: Path  # what it prints is added there
    is_spare: bool = False  # it waits for a name to go on under
    keys: str = dataclasses.field(default="", repr=False)  # the text of a key file for it alone


class Child(Protocol):
    """A worker that was started."""

    name: str

    @property
    def reader(self) -> LineReader:
        """Its reports: to be read whenever its descriptor has something."""

    def poll(self) -> int | None:
        """How it ended, as subprocess has it; None while it lives."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; whether it has come."""

    def send_signal(self, number: signal.Signals) -> None:
        """Does nothing to one that has ended."""

    def dump_stack(self) -> None:
        """Have it write the stack of every thread into its log, awake or stopped."""

    def is_stopped(self) -> bool:
        """Whether a signal has stopped it."""

    def take_over(self, name: str, suspects: tuple[int, ...]) -> None:
        """Have a spare go on under this name."""

    def was_reading(self) -> tuple[int, ...]:
        """Of a data process that has ended: rows that it was decoding. To be asked once."""


class Place(Protocol):
    """Somewhere workers can live."""

    def start(self, order: WorkerOrder, on_report: TakeReport) -> Child:
        """Raises OSError where there is no room for it for now."""

    def close(self) -> None:
        """No more is asked for, and every child has ended or was given up."""


def reader_of(descriptor: int, child: Child, on_report: TakeReport) -> LineReader:
    """A child's reports, told under the name that it has when they come."""

    def take(line: str) -> None:
        report = decode(line)
        if report is not None:
            on_report(child.name, report)

    return LineReader(descriptor, take)
