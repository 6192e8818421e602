"""`launcher.py examples [DIR]`: the files that the documents speak of, for who has no checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

from shared.config.flags import PlainParser
from shared.config.installation import PROGRAM, shipped_files
from shared.console.say import say_plainly
from shared.errors import InputError

_FOLDERS = ("configs", "examples")


def examples_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog=f"{PROGRAM} examples",
        usage=f"{PROGRAM} examples [DIR]",
        description="Copy the example tasks and the ready configurations, to be read and changed. "
        "Files that are there already are left as they are.",
    )
    parser.add_argument(
        "folder", nargs="?", default=".", metavar="DIR", help="where to [this folder]"
    )
    return parser


def main(arguments: list[str]) -> int:
    """Copy what is not there yet, and say which is which."""
    folder = Path(examples_parser().parse_all(arguments).folder)
    for name, path in shipped_files().items():
        if not name.startswith(_FOLDERS):
            continue
        copy = folder / name
        if copy.exists():
            say_plainly(f"   {copy} is there already, and stays as it is")
            continue
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        except OSError as error:
            raise InputError(f"{copy}: can't be written ({error.strerror or error}).") from None
        say_plainly(f"📄 {copy}")
    return 0
