"""Flags of the commands that a child process carries out.

The launcher reads them to refuse what can't be before anything heavy starts, the child to do the work.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
from pathlib import Path

from shared.config.flags import OF_THIS_MACHINE, OptionsParser, PlainParser, memory_named
from shared.config.installation import PROGRAM
from shared.config.settings import Config
from shared.config.toml_file import build_config, read_values
from shared.errors import ConfigError, InputError
from shared.speech.text.markup import PITCH_RANGE, SPEED_RANGE

GRIFFIN_LIM = "griffin-lim"  # of --vocoder
LOOPBACK = "127.0.0.1"
TOKEN_VARIABLE = "TANDEM_TOKEN"
_LAST_PORT = 65_535
EXPORT_FORMATS = ("saved-model", "onnx")


def check_data_parser() -> PlainParser:
    """The flags of the command."""
    parser = OptionsParser(
        ("data", "task"),
        prog=f"{PROGRAM} check-data",
        usage=f"{PROGRAM} check-data --train-data DIR [--html FILE] [--json] [data flags]",
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
        prog=f"{PROGRAM} speak",
        usage=f'{PROGRAM} speak --run RUN --text "…" --out out.wav [flags]',
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
    _add_lexicon(parser)
    parser.add_argument("--speed", type=float, default=1.0, help="2 is twice as fast [1]")
    parser.add_argument("--pitch", type=float, default=0.0, help="semitones up or down [0]")
    parser.add_argument(
        "--vocoder",
        metavar="DIR",
        help="run directory of a --task vocoder, SavedModel of a HiFi-GAN vocoder, or griffin-lim "
        "[the run's own vocoder where that is better than Griffin-Lim]",
    )
    return parser


def _add_lexicon(parser: PlainParser) -> None:
    parser.add_argument(
        "--lexicon", metavar="FILE",
        help="how words are said: a line each, the word, a tab, and other words or [[phonemes]]",
    )  # fmt: skip


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
        prog=f"{PROGRAM} export",
        usage=f"{PROGRAM} export --run RUN --out DIR [--format onnx [--quantise]] [flags]",
        description="Write the voice of a run so that it speaks without this program: as a "
        "SavedModel (text ids to mel, and to waveform), or as ONNX files, one of them in Piper's "
        "convention; with its symbol table, its voices and a README.",
    )
    parser.add_argument("--run", required=True, metavar="DIR", help="run directory")
    parser.add_argument("--out", required=True, metavar="DIR", help="new folder to write")
    parser.add_argument(
        "--format", choices=EXPORT_FORMATS, default=EXPORT_FORMATS[0], help="[%(default)s]"
    )
    parser.add_argument(
        "--quantise", action="store_true", help="ONNX with weights of 16 bits: half the size"
    )
    parser.add_argument(
        "--reference", metavar="WAV", help="voice to put in, instead of the corpus' speakers"
    )
    parser.add_argument(
        "--vocoder",
        metavar="DIR",
        help="run directory of a --task vocoder, or griffin-lim for a SavedModel [the run's own "
        "vocoder where that is better than Griffin-Lim]",
    )
    return parser


def read_export_flags(arguments: list[str]) -> argparse.Namespace:
    """The flags, checked against each other.

    Raises:
        ConfigError: says which of them can't be, and what to give instead.
    """
    flags = export_parser().parse_all(arguments)
    if flags.quantise and flags.format != "onnx":
        raise ConfigError(
            "--quantise halves the weights of ONNX files; give --format onnx with it."
        )
    if flags.vocoder == GRIFFIN_LIM and flags.format == "onnx":
        raise ConfigError("ONNX has no Griffin-Lim. Name the run of a vocoder with --vocoder DIR.")
    return flags


def serve_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog=f"{PROGRAM} serve",
        usage=f"{PROGRAM} serve --run RUN [--port 8090] [flags]",
        description="Speak for programs and people: POST /v1/audio/speech, GET /v1/voices, and a "
        "page to type into. The run is exported to ONNX once, and kept in its folder.",
    )
    parser.add_argument(
        "--run", required=True, metavar="DIR",
        help="run directory, or what 'export --format onnx' wrote",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=8090, help="0 for any that is free [8090]")
    parser.add_argument(
        "--host", metavar="ADDRESS", default=LOOPBACK,
        help="address to serve at; any but loopback wants a token [%(default)s]",
    )  # fmt: skip
    parser.add_argument(
        "--token", metavar="TOKEN",
        help=f"what clients have to know; better given in {TOKEN_VARIABLE}, where no list of "
        "processes shows it",
    )  # fmt: skip
    parser.add_argument(
        "--max-requests", type=int, default=64, metavar="N",
        help="requests under way or waiting at once; more are refused [64]",
    )  # fmt: skip
    parser.add_argument(
        "--vocoder", metavar="DIR",
        help="run directory of a --task vocoder [the run's own]",
    )  # fmt: skip
    _add_lexicon(parser)
    return parser


def read_serve_flags(arguments: list[str]) -> argparse.Namespace:
    """The flags, checked against each other; the token also from the environment.

    Raises:
        ConfigError: says which of them can't be, and what to give instead.
    """
    flags = serve_parser().parse_all(arguments)
    flags.token = flags.token or os.environ.get(TOKEN_VARIABLE) or None
    if not 0 <= flags.port <= _LAST_PORT:
        raise ConfigError(f"--port {flags.port}: expected 0 to {_LAST_PORT}.")
    if flags.max_requests < 1:
        raise ConfigError(f"--max-requests {flags.max_requests}: expected 1 or more.")
    if flags.token is None and not _is_loopback(flags.host):
        raise ConfigError(
            f"--host {flags.host}: other machines could ask there. Give a token that they have to "
            f"know, in {TOKEN_VARIABLE} or with --token."
        )
    if flags.vocoder == GRIFFIN_LIM:
        raise ConfigError("A server speaks with a vocoder. Name the run of one with --vocoder DIR.")
    return flags


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
