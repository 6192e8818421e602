"""Children of the launcher: started with their environment, their output read, ended by id."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from shared.worker.child_environment import child_environment
from shared.worker.contract import PIPE_VARIABLE, RECORD_VARIABLE
from shared.worker.decoding_record import ReadingRecord
from shared.worker.reports import Report, decode

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


class WorkerProcess:
    """One running child. Its output goes into its log; its reports to whoever asked."""

    def __init__(
        self,
        name: str,
        arguments: list[str],
        environment: dict[str, str],
        log_path: Path,
        on_report: Callable[[str, Report], None],
        is_spare: bool = False,
    ):
        """Raises OSError where the system has no process, descriptor or place in the log for it."""
        self.name = name
        self._on_report = on_report
        with contextlib.ExitStack() as if_it_fails, contextlib.ExitStack() as passed_on:
            report_read, report_write = os.pipe()
            if_it_fails.callback(os.close, report_read)
            passed_on.callback(os.close, report_write)
            # A launcher that is held up must not hold up its workers.
            os.set_blocking(report_write, False)
            self._record, record = ReadingRecord.shared()
            if_it_fails.callback(self._record.close)
            passed_on.callback(os.close, record)
            descriptors = {PIPE_VARIABLE: str(report_write), RECORD_VARIABLE: str(record)}
            # A group of its own: Ctrl-C reaches the launcher only, which decides what it means.
            with open(log_path, "ab") as log:
                self.process = subprocess.Popen(
                    [sys.executable, *arguments],
                    env=child_environment({**environment, **descriptors}),
                    stdin=subprocess.PIPE if is_spare else subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(report_write, record),
                    start_new_session=True,
                )
            if_it_fails.pop_all()
        self.reader = LineReader(report_read, self._take_line)

    @property
    def pid(self) -> int:
        return self.process.pid

    def _take_line(self, line: str) -> None:
        report = decode(line)
        if report is not None:
            self._on_report(self.name, report)

    def take_over(self, name: str, suspects: tuple[int, ...]) -> None:
        """Have a spare go on under this name; one that has just died is noticed as any other."""
        self.name = name
        order = json.dumps({"name": name, "suspects": suspects})
        assert self.process.stdin is not None  # a spare's is a pipe
        with contextlib.suppress(BrokenPipeError), self.process.stdin as orders:
            orders.write(f"{order}\n".encode())

    def is_stopped(self) -> bool:
        """Whether a signal has stopped it (state T; a debugger's hold is a small t)."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0] == "T"
        except (OSError, IndexError):
            return False

    def was_reading(self) -> tuple[int, ...]:
        """Of a data process that has ended: rows that it was decoding. To be asked once."""
        rows = self._record.rows()
        self._record.close()
        return rows

    def send_signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)  # does nothing once the process has been waited for

    def dump_stack(self) -> None:
        """Have it write the stack of every thread into its log, awake or stopped."""
        self.send_signal(signal.SIGCONT)
        self.send_signal(signal.SIGUSR2)
