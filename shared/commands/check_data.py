"""`launcher.py check-data`: every row that would not be used, and what else is worth knowing.

The work is done by data_worker.speech.data_check, with the preparation of a real run.
"""

from __future__ import annotations

from shared.launching.foreground_child import run_in_foreground
from shared.speech.command_flags import check_data_parser, read_check_data_flags

__all__ = ["check_data_parser", "main"]


def main(arguments: list[str]) -> int:
    """Check the flags here, where it costs nothing, and look at the data in a child process."""
    read_check_data_flags(arguments)
    return run_in_foreground("data_worker.speech.data_check", arguments)
