"""`launcher.py speak`: text to speech with a run's voice. model_worker.speech.speaking.speak does the work."""

from __future__ import annotations

from shared.launching.foreground_child import run_in_foreground
from shared.speech.command_flags import read_speak_flags, speak_parser

__all__ = ["main", "speak_parser"]


def main(arguments: list[str]) -> int:
    """Check the flags here, where it costs nothing, and speak in a child process."""
    read_speak_flags(arguments)
    return run_in_foreground("model_worker.speech.speaking.speak", arguments)
