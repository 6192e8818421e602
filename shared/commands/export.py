"""`launcher.py export`: a run's voice as a SavedModel. The work is done by model_worker.speech.speaking.export."""

from __future__ import annotations

import argparse

from shared.config.flags import PlainParser
from shared.launching.foreground_child import run_in_foreground


def main(arguments: list[str]) -> int:
    """Check the flags here, where it costs nothing, and export in a child process."""
    read_flags(arguments)
    return run_in_foreground("model_worker.speech.speaking.export", arguments)


def read_flags(arguments: list[str]) -> argparse.Namespace:
    """The flags, read. Raises ConfigError."""
    return export_parser().parse_all(arguments)


def export_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog="launcher.py export",
        usage="launcher.py export --run RUN --out DIR [--reference WAV]",
        description="Write a SavedModel (text ids to mel, and to waveform) that runs without "
        "this program, with its symbol table, its voices and a README.",
    )
    parser.add_argument("--run", required=True, metavar="DIR", help="run directory")
    parser.add_argument("--out", required=True, metavar="DIR", help="new folder to write")
    parser.add_argument(
        "--reference", metavar="WAV", help="voice to put in, instead of the corpus' speakers"
    )
    return parser
