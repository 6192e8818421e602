"""`launcher.py report RUN`: a run's report.html; also left behind at the end of every run."""

from __future__ import annotations

import signal
from collections.abc import Callable

from shared.config.flags import PlainParser
from shared.launching.stop_signals import in_main_thread
from shared.launching.training_run import say_plainly
from shared.run.directory import RunDirectory

_TOLD_TO_STOP = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def report_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog="launcher.py report",
        usage="launcher.py report RUN",
        description="Write report.html, one page about a run that opens without a network.",
    )
    parser.add_argument("run", metavar="RUN", help="run directory, such as runs/NAME")
    return parser


def main(arguments: list[str]) -> int:
    """Write the page and say where it is."""
    flags = report_parser().parse_all(arguments)
    from shared.console.report import write_report

    say_plainly(f"📄 {write_report(flags.run)}")
    return 0


def leave_report(run: RunDirectory, ending: str, say: Callable[[str], None]) -> None:
    """Write the report of a run that has ended. Nothing that goes wrong here changes its end."""
    try:
        # The run is over and saved: a scheduler's reminder must not turn that into a death.
        told = _TOLD_TO_STOP if in_main_thread() else ()
        before = {number: signal.signal(number, signal.SIG_IGN) for number in told}
        try:
            from shared.console.report import write_report

            say(f"📄 Report: {write_report(run.path, ending)}")
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    except (Exception, KeyboardInterrupt) as error:
        why = str(error) or type(error).__name__
        say(f"⚠️  report.html was not written ({why}). Try 'python launcher.py report {run.path}'.")
