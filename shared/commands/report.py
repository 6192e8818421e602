"""`launcher.py report RUN`: a run's report.html."""

from __future__ import annotations

from shared.config.flags import PlainParser
from shared.console.say import say_plainly


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
