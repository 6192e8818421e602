"""Flags of the commands that a child process carries out.

The launcher reads them to refuse what can't be before anything heavy starts, the child to do the work.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from shared.config.flags import OF_THIS_MACHINE, OptionsParser, PlainParser, memory_named
from shared.config.settings import Config
from shared.config.toml_file import build_config, read_values
from shared.errors import ConfigError, InputError
from shared.speech.text.markup import PITCH_RANGE, SPEED_RANGE

GRIFFIN_LIM = "griffin-lim"  # of --vocoder


def check_data_parser() -> PlainParser:
    """The flags of the command."""
    parser = OptionsParser(
        ("data", "task"),
        prog="launcher.py check-data",
        usage="launcher.py check-data --train-data DIR [--html FILE] [--json] [data flags]",
        description="Look at every row of a data set as a run would, and say what is wrong with "
        "it. Exit code 0 if every row can be used, 1 if some can't, 2 if "
        "there is nothing to look at or too little to train on.",
    )
    parser.add_argument("--html", metavar="FILE", help="also write a page with pictures")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument(
        "--gpu-memory",
        nargs="?",
        const=OF_THIS_MACHINE,
        metavar="MB",
        help="also predict what steps of each model size take of a GPU with so much memory "
        "[without a number: of the GPU here]",
    )
    return parser


def read_check_data_flags(arguments: list[str]) -> tuple[argparse.Namespace, Config]:
    """The flags of the command, and the configuration that they make.

    Raises:
        InputError: a flag can't be, or there is nothing to look at.
    """
    if arguments and not arguments[0].startswith("-"):
        arguments = ["--train-data", *arguments]
    flags = check_data_parser().parse_all(arguments)
    flags.gpu_memory = memory_named(flags.gpu_memory)
    layers = [read_values(Path(flags.config))] if flags.config else []
    config = build_config(*layers, flags.values)
    if not config.data.train_data:
        raise InputError("no --train-data was given: name the folder that holds the speech.")
    if flags.html and not Path(flags.html).absolute().parent.is_dir():
        raise InputError(f"--html {flags.html}: there is no folder to write it to.")
    if flags.html and Path(flags.html).is_dir():
        raise InputError(f"--html {flags.html}: is a folder; name a file.")
    return flags, config


def speak_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog="launcher.py speak",
        usage='launcher.py speak --run RUN --text "…" --out out.wav [flags]',
        description="Speak text with the voice of a run, from its best checkpoint.",
    )
    parser.add_argument("--run", required=True, metavar="DIR", help="run directory")
    parser.add_argument(
        "--text",
        help="what to say; long text is spoken sentence by sentence, and may hold <break>, "
        "<emphasis>, <prosody> and [[phonemes]]",
    )
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
    parser.add_argument(
        "--lexicon",
        metavar="FILE",
        help="how words are said: a line each, the word, a tab, and other words or [[phonemes]]",
    )
    parser.add_argument("--speed", type=float, default=1.0, help="2 is twice as fast [1]")
    parser.add_argument("--pitch", type=float, default=0.0, help="semitones up or down [0]")
    parser.add_argument(
        "--vocoder",
        metavar="DIR",
        help="run directory of a --task vocoder, SavedModel of a HiFi-GAN vocoder, or griffin-lim "
        "[the run's own vocoder where that is better than Griffin-Lim]",
    )
    return parser


def read_speak_flags(arguments: list[str]) -> argparse.Namespace:
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


def read_export_flags(arguments: list[str]) -> argparse.Namespace:
    """The flags, read. Raises ConfigError."""
    return export_parser().parse_all(arguments)
