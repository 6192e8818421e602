"""What is told of a run while it goes on: its log, its events, its status, and who shows it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Callable
from typing import Any, Protocol

from shared.console.say import say_plainly
from shared.launching.event_hook import EventHook
from shared.launching.stop_signals import in_main_thread
from shared.run.directory import RunDirectory
from shared.run.event_log import Ended, EventLog, Restarted, Started
from shared.status.run_status import RunStatus
from shared.status.status_file import StatusWriter
from shared.status.status_keeper import StatusKeeper
from shared.worker.contract import EXIT_FINISHED, EXIT_INTERRUPTED
from shared.worker.reports import LineKind, Metrics, Report

_HOOK_ENDS_WITHIN_S = 10.0
_STOPPED_HOOK_ENDS_WITHIN_S = 2.0  # a stop is to be quick


class View(Protocol):
    """Shows a run on a terminal."""

    def show(self, status: RunStatus) -> None: ...


class RunRecord:
    """A context manager: the status is written from its beginning to its end."""

    def __init__(
        self,
        run: RunDirectory,
        buffer_size: int,
        started_s: float,
        data_device: str = "GPU",
        model_device: str = "GPU",
        on_event: str | None = None,
        settings: dict[str, Any] | None = None,
    ):
        """`on_event` is a command that is told what happens, first of all the settings."""
        self._run = run
        self._hook = EventHook(on_event, run.hook_log, self.say) if on_event else None
        self._settings = settings or {}
        self._log = open(run.launcher_log, "a", encoding="utf-8")  # noqa: SIM115
        self._events = EventLog(run.events)
        # In another thread the signals are whoever's has that process.
        self._takes_signals = in_main_thread()
        self._keeper = StatusKeeper(
            buffer_size, started_s, data_device, model_device, self._takes_signals
        )
        self.view: View | None = None  # while one shows the run
        self.on_stop: Callable[[], None] | None = None  # while it trains
        self._writer: StatusWriter | None = None
        self._ended: Ended | None = None

    def __enter__(self) -> RunRecord:
        self._keeper.preparing()
        self._writer = StatusWriter(self._run, self._keeper.status, self._stop)
        return self

    def __exit__(self, kind: type | None, failure: BaseException | None, trace: object) -> None:
        if self._ended is None and failure is not None:
            code = getattr(failure, "exit_code", 1)
            cause = str(failure) or type(failure).__name__
            if isinstance(failure, KeyboardInterrupt):
                code, cause = EXIT_INTERRUPTED, "interrupted before training began"
            self._ended = Ended(time.time(), code, cause)
            self._tell("ended", exit_code=code, cause=cause)
        if self._ended is not None:
            self._keeper.end(self._ended)
        if self._hook is not None:
            finished = self._ended is None or self._ended.exit_code == EXIT_FINISHED
            self._hook.close(_HOOK_ENDS_WITHIN_S if finished else _STOPPED_HOOK_ENDS_WITHIN_S)
        if self._writer is not None:
            self._writer.close()
        if self._ended is None:
            self._run.status.unlink(missing_ok=True)  # prepared, for others to start
        self._run.stop_request.unlink(missing_ok=True)
        self._events.close()
        self._log.close()

    @property
    def status(self) -> RunStatus:
        return self._keeper.status()

    def say(self, text: str, kind: LineKind = LineKind.STORY) -> None:
        """A line of the run's story."""
        self._write_down(text)
        self._keeper.say(text, kind)
        if kind is LineKind.LEFT_OUT:
            self._tell("left_out", text=text)
        if self.view is None:
            say_plainly(text)
        else:
            self._show()

    def say_last(self, text: str) -> None:
        """How it ended. Watchers have words of their own for that."""
        self._write_down(text)
        say_plainly(text)

    def _write_down(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a full disk is no reason to end a run
            self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
            self._log.flush()

    def preparing(self, what: str, done: int, total: int) -> None:
        """How far the look at the data is."""
        self._keeper.preparing(what, done, total)

    def training(self, left_out: int) -> None:
        """The workers are about to be started."""
        self._events.add(Started(time.time()))
        self._keeper.training(left_out)
        self._tell("started", settings=self._settings)

    def report(self, worker: str, report: Report) -> None:
        """What a worker has told."""
        self._keeper.report(worker, report)
        if isinstance(report, Metrics):
            kind = "validation" if report.outlook is None else "step"
            outlook = dataclasses.asdict(report.outlook) if report.outlook else None
            self._tell(kind, record=report.record, outlook=outlook)
        self._show()

    def event(self, event: Restarted) -> None:
        """A worker was replaced."""
        self._events.add(event)
        self._keeper.event(event)
        self._tell("restarted", worker=event.worker, cause=event.cause)

    def stopping(self) -> None:
        """The run was asked to save and end."""
        self._keeper.stopping()

    def end(self, ended: Ended) -> None:
        """How what was started has ended. Its last lines, and the report, are still to come."""
        self._ended = ended
        self._events.add(ended)
        self._tell("ended", exit_code=ended.exit_code, cause=ended.cause)

    def _show(self) -> None:
        if self.view is not None:
            self.view.show(self._keeper.status())

    def _tell(self, kind: str, **facts: Any) -> None:
        if self._hook is not None:
            path = self._run.path.resolve()
            self._hook.tell(
                {"kind": kind, "time_s": time.time(), "run": path.name, "run_dir": str(path),
                 **facts}
            )  # fmt: skip

    def _stop(self) -> None:
        """Someone has left a request to stop in the run directory."""
        if self._takes_signals:
            os.kill(os.getpid(), signal.SIGTERM)
        elif self.on_stop is not None:
            self.on_stop()
