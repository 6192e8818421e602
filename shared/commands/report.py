"""`launcher.py report RUN`: a run's report.html, and with --zip one file to give away."""

from __future__ import annotations

from shared.config.flags import PlainParser
from shared.config.installation import PROGRAM
from shared.console.say import say_plainly


def report_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog=f"{PROGRAM} report",
        usage=f"{PROGRAM} report RUN [--zip FILE]",
        description="Write report.html, one page about a run that opens without a network.",
    )
    parser.add_argument("run", metavar="RUN", help="run directory, such as runs/NAME")
    parser.add_argument(
        "--zip",
        metavar="FILE",
        help="write the page, the numbers and all samples into this zip file instead",
    )
    return parser


def main(arguments: list[str]) -> int:
    """Write it and say where it is."""
    flags = report_parser().parse_all(arguments)
    if flags.zip is not None:
        from shared.console.report_zip import write_report_zip

        path = write_report_zip(flags.run, flags.zip)
        say_plainly(f"📦 {path} ({path.stat().st_size / 2**20:.1f} MB)")
        return 0
    from shared.console.report import write_report

    say_plainly(f"📄 {write_report(flags.run)}")
    return 0
