"""`launcher.py check-data`: every row that would not be used, and what else is worth knowing.

The work is done by data_worker.speech.data_check, with the preparation of a real run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from shared.config.flags import PlainParser, add_option_flags
from shared.config.settings import Config
from shared.config.toml_file import build_config, read_values
from shared.errors import InputError
from shared.launching.foreground_child import run_in_foreground


def main(arguments: list[str]) -> int:
    """Check the flags here, where it costs nothing, and look at the data in a child process."""
    read_flags(arguments)
    return run_in_foreground("data_worker.speech.data_check", arguments)


def check_data_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog="launcher.py check-data",
        usage="launcher.py check-data --train-data DIR [--html FILE] [--json] [data flags]",
        description="Look at every row of a data set as a run would, and say what is wrong with "
        "it. Exit code 0 if every row can be used, 1 if some can't, 2 if "
        "there is nothing to look at or too little to train on.",
    )
    parser.add_argument("--html", metavar="FILE", help="also write a page with pictures")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--config", metavar="FILE", help="TOML file with any of these options")
    add_option_flags(parser, ("data", "task"))
    return parser


def read_flags(arguments: list[str]) -> tuple[argparse.Namespace, Config]:
    """The flags of the command, and the configuration that they make.

    Raises:
        InputError: a flag can't be, or there is nothing to look at.
    """
    if arguments and not arguments[0].startswith("-"):
        arguments = ["--train-data", *arguments]
    flags = check_data_parser().parse_all(arguments)
    layers = [read_values(Path(flags.config))] if flags.config else []
    config = build_config(*layers, flags.values)
    if not config.data.train_data:
        raise InputError("no --train-data was given: name the folder that holds the speech.")
    if flags.html and not Path(flags.html).absolute().parent.is_dir():
        raise InputError(f"--html {flags.html}: there is no folder to write it to.")
    if flags.html and Path(flags.html).is_dir():
        raise InputError(f"--html {flags.html}: is a folder; name a file.")
    return flags, config
