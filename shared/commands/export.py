"""`launcher.py export`: a run's voice as files for others. The work is done by model_worker.speech.speaking.export."""

from __future__ import annotations

from shared.launching.foreground_child import run_in_foreground
from shared.speech.command_flags import export_parser, read_export_flags

__all__ = ["export_parser", "main"]


def main(arguments: list[str]) -> int:
    """Check the flags here, where it costs nothing, and export in a child process."""
    read_export_flags(arguments)
    return run_in_foreground("model_worker.speech.speaking.export", arguments)
