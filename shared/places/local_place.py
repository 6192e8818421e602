"""Children of the launcher: started with their environment, their output read, ended by id."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping

from shared.places.line_reader import LineReader
from shared.places.place import TakeReport, WorkerOrder, reader_of
from shared.places.private_file import private_file
from shared.worker.child_environment import child_environment, python_command
from shared.worker.contract import PIPE_VARIABLE, RECORD_VARIABLE
from shared.worker.decoding_record import ReadingRecord


class WorkerProcess:
    """One running child. Its output goes into its log; its reports to whoever asked."""

    def __init__(
        self, order: WorkerOrder, on_report: TakeReport, base: Mapping[str, str] = os.environ
    ):
        """`base` is the environment that the order's is added to.

        Raises OSError where the system has no process, descriptor or place in the log for it.
        """
        self.name = order.name
        with contextlib.ExitStack() as if_it_fails, contextlib.ExitStack() as passed_on:
            report_read, report_write = os.pipe()
            if_it_fails.callback(os.close, report_read)
            passed_on.callback(os.close, report_write)
            # A launcher that is held up must not hold up its workers.
            os.set_blocking(report_write, False)
            self._record, record = ReadingRecord.shared()
            if_it_fails.callback(self._record.close)
            passed_on.callback(os.close, record)
            passed, arguments = [report_write, record], python_command(*order.arguments)
            if order.keys:
                keys = private_file(order.keys)
                passed_on.callback(os.close, keys)
                passed.append(keys)
                arguments += ["--keys", f"/proc/self/fd/{keys}"]
            descriptors = {PIPE_VARIABLE: str(report_write), RECORD_VARIABLE: str(record)}
            # A group of its own: Ctrl-C reaches the launcher only, which decides what it means.
            with open(order.log, "ab") as log:
                self.process = subprocess.Popen(
                    arguments,
                    env=child_environment({**order.environment, **descriptors}, base),
                    stdin=subprocess.PIPE if order.is_spare else subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=passed,
                    start_new_session=True,
                )
            if_it_fails.pop_all()
        self._reader = reader_of(report_read, self, on_report)

    @property
    def reader(self) -> LineReader:
        return self._reader

    @property
    def pid(self) -> int:
        return self.process.pid

    def poll(self) -> int | None:
        return self.process.poll()

    def wait(self, timeout_s: float | None = None) -> bool:
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def take_over(self, name: str, suspects: tuple[int, ...]) -> None:
        """One that has just died is noticed as any other."""
        self.name = name
        order = json.dumps({"name": name, "suspects": suspects})
        assert self.process.stdin is not None  # a spare's is a pipe
        with contextlib.suppress(BrokenPipeError), self.process.stdin as orders:
            orders.write(f"{order}\n".encode())

    def is_stopped(self) -> bool:
        """State T; a debugger's hold is a small t."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0] == "T"
        except (OSError, IndexError):
            return False

    def was_reading(self) -> tuple[int, ...]:
        rows = self._record.rows()
        self._record.close()
        return rows

    def send_signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)  # does nothing once the process has been waited for

    def dump_stack(self) -> None:
        self.send_signal(signal.SIGCONT)
        self.send_signal(signal.SIGUSR2)


class LocalPlace:
    """This host: workers are children of this process, and die with it."""

    def start(self, order: WorkerOrder, on_report: TakeReport) -> WorkerProcess:
        return WorkerProcess(order, on_report)

    def close(self) -> None:
        """Nothing is left of it."""
