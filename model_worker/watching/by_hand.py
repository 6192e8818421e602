"""What the launcher would tell of a run, for a model process that a person has started."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

from shared.config.settings import Config
from shared.console.leave_report import leave_report
from shared.errors import TandemError
from shared.run.directory import RunDirectory
from shared.run.event_log import Ended, EventLog, Started
from shared.status.status_file import StatusWriter
from shared.status.status_keeper import StatusKeeper
from shared.worker.contract import EXIT_FINISHED, EXIT_INTERRUPTED, EXIT_TO_BEGIN_AGAIN
from shared.worker.names import DATA_WORKER, MODEL_WORKER
from shared.worker.reports import Busy, Metrics, Report, Reporter, Said
from shared.worker.start import StopFlag

_ENDINGS = {
    EXIT_FINISHED: "finished",
    EXIT_INTERRUPTED: "interrupted; the checkpoint is saved",
    EXIT_TO_BEGIN_AGAIN: "another replica was lost; the checkpoint is saved",
}


class ByHand:
    """The events and the status of such a run, from what this process itself reports."""

    def __init__(
        self,
        run: RunDirectory,
        config: Config,
        device_kind: str,
        reporter: Reporter,
        should_stop: StopFlag,
    ):
        self._run, self._config, self._reporter = run, config, reporter
        self._should_stop = should_stop
        device = "CPU" if device_kind == "cpu" else "GPU"
        self._keeper = StatusKeeper(
            config.data.pipeline_buffer_size, time.time(),
            data_device="GPU" if config.data.data_gpus else "CPU", model_device=device,
        )  # fmt: skip

    @contextlib.contextmanager
    def told(self) -> Iterator[ByHand]:
        """While the run goes on; an end that nobody has told was this error's."""
        self._note(Started(time.time()))
        left_out = self._run.quarantine
        self._keeper.training(left_out.read_bytes().count(b"\n") if left_out.exists() else 0)
        self._reporter.listener = self._take
        writer = StatusWriter(
            self._run, self._keeper.status, lambda: os.kill(os.getpid(), signal.SIGTERM)
        )

        def note_interruption() -> None:
            cause = "interrupted while it was starting; there was nothing to save"
            self._note(Ended(time.time(), EXIT_INTERRUPTED, cause))
            writer.close()

        self._should_stop.before_exit = note_interruption
        try:
            yield self
        except BaseException as error:
            code = error.exit_code if isinstance(error, TandemError) else 1
            self._note(Ended(time.time(), code, str(error) or type(error).__name__))
            raise
        finally:
            writer.close()
            self._run.stop_request.unlink(missing_ok=True)

    def end(self, code: int) -> None:
        """Write down and say how it ended, with what the launcher leaves."""
        self._note(Ended(time.time(), code, _ENDINGS[code]))
        words = f"🏁 Finished. Everything is in {self._run.path}"
        if code == EXIT_INTERRUPTED:
            words = "⏹  Interrupted; the checkpoint is saved. The same command goes on from there"
        elif code == EXIT_TO_BEGIN_AGAIN:
            words = "⏹  Another replica was lost; the checkpoint is saved. Start all of them again"
        elif self._config.run.report:  # a stop is to be quick
            leave_report(self._run, self._reporter.say)
        self._reporter.listener = None  # watchers have words of their own for an end
        self._reporter.say(words)

    def _take(self, report: Report) -> None:
        if isinstance(report, Said):
            self._keeper.say(report.text, report.kind_of_line)
            return
        self._keeper.report(MODEL_WORKER, report)
        if isinstance(report, Metrics) and report.outlook is not None:
            # The data processes tell nobody else; how busy they were comes with their batches.
            share = report.record.get("data_gpu_busy")
            if isinstance(share, float):
                self._keeper.report(DATA_WORKER, Busy(share))

    def _note(self, event: Started | Ended) -> None:
        if isinstance(event, Ended):
            self._keeper.end(event)
        with contextlib.closing(EventLog(self._run.events)) as events:
            events.add(event)
