"""The report that every run leaves behind at its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from shared.config.installation import PROGRAM
from shared.run.directory import RunDirectory

_TOLD_TO_STOP = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def leave_report(run: RunDirectory, say: Callable[[str], None]) -> None:
    """Write the report of a run that has ended. Nothing that goes wrong here changes its end."""
    try:
        # The run is over and saved: a scheduler's reminder must not turn that into a death.
        in_main_thread = threading.current_thread() is threading.main_thread()
        told = _TOLD_TO_STOP if in_main_thread else ()
        before = {number: signal.signal(number, signal.SIG_IGN) for number in told}
        try:
            from shared.console.report import write_report

            say(f"📄 Report: {write_report(run.path)}")
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    except (Exception, KeyboardInterrupt) as error:
        why = str(error) or type(error).__name__
        say(f"⚠️  report.html was not written ({why}). Try '{PROGRAM} report {run.path}'.")
