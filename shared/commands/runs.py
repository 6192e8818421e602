"""`launcher.py runs [DIR]`: the runs of a folder, how each is, and what it takes of the disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from shared.clock import clock
from shared.config.flags import PlainParser
from shared.config.installation import PROGRAM
from shared.console.json_output import stdout_for_json_alone, write_json
from shared.console.say import say_plainly
from shared.errors import InputError
from shared.run.directory import RunDirectory
from shared.status.run_state import State
from shared.status.summary import RunSummary, runs_below, summary_of

_TITLES = ("run", "state", "step", "loss", "validation", "left", "disk")
_LONGEST_WHY = 96


def runs_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog=f"{PROGRAM} runs",
        usage=f"{PROGRAM} runs [DIR] [--json]",
        description="List the runs in a folder: the state of each, how far it is, and the disk space it takes.",
    )
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", default="runs", help="a folder of runs, or a run [runs]"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return parser


def main(arguments: list[str]) -> int:
    """Print the list."""
    flags = runs_parser().parse_all(arguments)
    folder = Path(flags.folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder. Name the one that holds your runs.")
    out = stdout_for_json_alone() if flags.json else None
    found = [summary_of(RunDirectory(path)) for path in runs_below(folder)]
    if out is not None:
        write_json(out, {"runs": [dataclasses.asdict(each) for each in found]})
    elif not found:
        say_plainly(f"There is no run in {folder}.")
    else:
        for line in table_lines(found):
            say_plainly(line)
    return 0


def table_lines(found: Sequence[RunSummary]) -> list[str]:
    """The runs below each other, each with why it failed."""
    rows = [_TITLES, *(_row(each) for each in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    lines = []
    for row, each in zip(rows, (None, *found), strict=True):
        # The numbers stand on the right.
        cells = [
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        if each is not None and each.why and each.state is State.FAILED:
            why = " ".join(each.why.split())
            lines.append(f"  {why if len(why) <= _LONGEST_WHY else why[: _LONGEST_WHY - 1] + '…'}")
    return lines


def _row(each: RunSummary) -> tuple[str, ...]:
    step = "" if each.step is None else f"{each.step:,}"
    if each.total_steps and each.left_s is not None:
        step += f"/{each.total_steps:,}"
    return (
        each.run,
        str(each.state),
        step,
        "" if each.loss is None else f"{each.loss:.3f}",
        "" if each.val_loss is None else f"{each.val_loss:.3f}",
        "" if each.left_s is None else clock(each.left_s),
        _size(each.disk_bytes),
    )


def _size(num_bytes: int) -> str:
    megabytes = num_bytes / 2**20
    return f"{megabytes / 1024:.1f} GB" if megabytes >= 1000 else f"{megabytes:.0f} MB"
