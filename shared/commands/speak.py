"""`launcher.py speak`: text to speech with a run's voice. model_worker.speech.speaking.speak does the work."""

from __future__ import annotations

import argparse

from shared.config.flags import PlainParser
from shared.errors import ConfigError
from shared.launching.foreground_child import run_in_foreground

SPEED_RANGE = (0.25, 4.0)
PITCH_RANGE = (-12.0, 12.0)


def main(arguments: list[str]) -> int:
    """Check the flags here, where it costs nothing, and speak in a child process."""
    read_flags(arguments)
    return run_in_foreground("model_worker.speech.speaking.speak", arguments)


def speak_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog="launcher.py speak",
        usage='launcher.py speak --run RUN --text "…" --out out.wav [flags]',
        description="Speak text with the voice of a run: its averaged weights, at their best.",
    )
    parser.add_argument("--run", required=True, metavar="DIR", help="run directory")
    parser.add_argument("--text", help="what to say; long text is spoken sentence by sentence")
    parser.add_argument("--text-file", metavar="FILE", help="UTF-8 text to say")
    parser.add_argument("--out", metavar="WAV", help="16-bit wav at 22,050 Hz")
    parser.add_argument(
        "--out-dir", metavar="DIR", help="one wav for each line of --text-file: 0001.wav, …"
    )
    parser.add_argument(
        "--mel",
        metavar="NPY",
        help="also write the mel, float32 (80, frames), natural log, as HiFi-GAN wants it; with "
        "--out-dir a folder of them",
    )
    parser.add_argument("--reference", metavar="WAV", help="speak in the voice of this recording")
    parser.add_argument("--speaker", metavar="NAME", help="speak as this speaker of the corpus")
    parser.add_argument("--speed", type=float, default=1.0, help="2 is twice as fast [1]")
    parser.add_argument("--pitch", type=float, default=0.0, help="semitones up or down [0]")
    parser.add_argument(
        "--vocoder", metavar="DIR", help="SavedModel of a HiFi-GAN vocoder [Griffin-Lim]"
    )
    return parser


def read_flags(arguments: list[str]) -> argparse.Namespace:
    """The flags, checked against each other.

    Raises:
        ConfigError: says which of them can't be, and what to give instead.
    """
    flags = speak_parser().parse_all(arguments)
    if (flags.text is None) == (flags.text_file is None):
        raise ConfigError("Say what to speak with either --text or --text-file.")
    if flags.text is not None and not flags.text.strip():
        raise ConfigError("--text is empty: there is nothing to say.")
    if flags.out and flags.out_dir:
        raise ConfigError("--out and --out-dir were both given: choose one wav or one per line.")
    if flags.out_dir and flags.text_file is None:
        raise ConfigError("--out-dir speaks the lines of a --text-file; none was given.")
    if not (flags.out or flags.out_dir or flags.mel):
        raise ConfigError("Say where the speech goes with --out FILE.wav (or --mel FILE.npy).")
    if flags.reference and flags.speaker:
        raise ConfigError("--reference and --speaker were both given: choose one voice.")
    _check_range("--speed", flags.speed, SPEED_RANGE)
    _check_range("--pitch", flags.pitch, PITCH_RANGE)
    return flags


def _check_range(flag: str, value: float, limits: tuple[float, float]) -> None:
    if not limits[0] <= value <= limits[1]:
        raise ConfigError(f"{flag} {value:g}: expected {limits[0]:g} to {limits[1]:g}.")
