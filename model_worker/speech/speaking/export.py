"""`python -m model_worker.speech.speaking.export`: the child that `launcher.py export` starts; same flags.

DIR/symbols.json                   symbol table, front end, language, statistics, speakers
DIR/…                              what `saved_model.py` or `onnx/folder.py` write
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np

from model_worker.checkpoints.averaged import averaged_checkpoint
from model_worker.speech.speaking.reference_clip import mel_of_recording, mel_of_speaker
from model_worker.speech.speaking.voice_to_export import VoiceToExport
from model_worker.vocoder.own_vocoder import Choice, own_vocoder
from model_worker.vocoder.trained_run import trained_run
from shared.config.installation import PROGRAM
from shared.config.settings import Config
from shared.devices.gpus import worker_environment
from shared.errors import InputError
from shared.plan.index import Index
from shared.run.files import make_folder
from shared.speech.command_flags import GRIFFIN_LIM, read_export_flags
from shared.speech.corpus_statistics import Statistics
from shared.speech.extras import want_extra
from shared.speech.mel import HOP, SAMPLE_RATE
from shared.speech.text.encoder import TextEncoder
from shared.speech.text.symbols import SPECIAL
from shared.worker.foreground import foreground_main, quiet_libraries
from shared.worker.start import open_run, start_tensorflow

# By language; the shorter ones for voices whose few recordings do not have every sound.
_EXAMPLES = {
    "en": ("Hello, this is my voice.", "Hello there.", "Hello."),
    "de": ("Hallo, das ist meine Stimme.", "Hallo!"),
    "fr": ("Bonjour, voici ma voix.", "Bonjour."),
    "es": ("Hola, esta es mi voz.", "Hola."),
    "fa": ("سلام",),
    "cmn": ("你好",),
    "hi": ("नमस्ते",),
}

_NO_VOCODER = (
    "{run}: has no vocoder, and ONNX has no Griffin-Lim. Train one with '{program} "
    "--train-data DIR --run-dir {run} --vocoder-share 0.3 --max-minutes 30', or name the run of one "
    "with --vocoder DIR."
)
_NO_BETTER_VOCODER = (
    "{why} ONNX has no Griffin-Lim: train the vocoder longer, or take it all the same with --vocoder "
    "{run}/vocoder."
)


def _work(arguments: list[str]) -> int:
    flags = read_export_flags(arguments)
    run, config = open_run(flags, "Name the directory of a trained run, such as runs/NAME.")
    out = Path(flags.out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out}: already holds something. Name a new folder.")
    is_onnx = flags.format == "onnx"
    if is_onnx:
        want_extra("onnx")
    index = Index.load(run.index)
    choice = _vocoder(flags.vocoder, run.path)
    if is_onnx and choice.run is None:
        words = _NO_BETTER_VOCODER if choice.why else _NO_VOCODER
        raise InputError(words.format(program=PROGRAM, why=choice.why, run=run.path))
    voices = _voices(flags.reference, index, config)
    checkpoint = averaged_checkpoint(run, _warn, "to speak with")
    if choice.why:
        _say(f"🎙  {choice.why}")
    about = _about(index, list(voices), checkpoint.step)
    voice = VoiceToExport(index, config, voices, checkpoint, choice.run, about)
    make_folder(out.parent)
    # A model that is saved on the CPU is loaded anywhere.
    os.environ.update(worker_environment(None))
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with quiet_libraries():
            start_tensorflow("model", "cpu", config)
            if is_onnx:
                from model_worker.speech.onnx.folder import write_onnx

                write_onnx(beside, out.name, voice, flags.quantise, _say)
            else:
                from model_worker.speech.speaking.saved_model import write_saved_model

                write_saved_model(beside, out.name, voice)
        (beside / "symbols.json").write_text(
            json.dumps(about, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
        os.replace(beside, out)
    except OSError as error:
        raise InputError(f"--out {out}: can't be written ({error.strerror or error}).") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    _say(
        f"📦 {out}: step {checkpoint.step}, {len(voices)} voice{'s' * (len(voices) != 1)}, "
        f"{_megabytes(out):.1f} MB; {out / 'README.md'} says how to use it"
    )
    return 0


def _vocoder(named: str | None, run: Path) -> Choice:
    """That which was named, else the run's own where it is better than Griffin-Lim.

    Raises:
        InputError: what was named is none.
    """
    if named is None:
        return own_vocoder(run, _warn)
    return Choice(None if named == GRIFFIN_LIM else trained_run(named, _warn))


def _voices(reference: str | None, index: Index, config: Config) -> dict[str, np.ndarray]:
    """Name -> reference mel, float32 (REFERENCE_FRAMES, 80).

    Raises:
        InputError: not one can be read.
    """
    if reference:
        return {Path(reference).stem: mel_of_recording(reference, config, index.mel_basis)}
    voices, problem = {}, None
    for name in index.speakers:
        try:
            voices[name] = mel_of_speaker(name, index, config)
        except InputError as error:
            problem = error
            _say(f"⚠️  {name} is left out. {error}")
    if not voices:
        raise InputError(str(problem))
    return voices


def _about(index: Index, speakers: list[str], step: int) -> dict:
    """The content of symbols.json."""
    text, symbols = _example(index)
    return {
        "format": "tandem-voice",
        "format_version": 1,
        "symbol_table": index.symbol_table,
        "frontend": index.text["frontend"],
        "language": index.text["language"],
        "statistics": dataclasses.asdict(Statistics.of_index(index)),
        "speakers": speakers,
        "sample_rate": SAMPLE_RATE,
        "hop_samples": HOP,
        "step": step,
        "example": {"text": text, "symbols": symbols},
    }


def _example(index: Index) -> tuple[str, str]:
    """A sentence in the voice's own script, and its symbols; at worst one of the corpus."""
    encoder = TextEncoder.of_index(index)
    language = str(index.text["language"] or "").partition("-")[0]
    # Phonemes are made of any script, if need be letter by letter: then only its own will do.
    by_sound = index.text["frontend"] == "phonemes"
    known = [_EXAMPLES.get(language, ()), *(() if by_sound else _EXAMPLES.values())]
    for text in itertools.chain(*known):
        before = len(encoder.unknown)
        pieces = encoder.encode(text)
        if len(pieces) == 1 and len(encoder.unknown) == before:
            return text, _spelled(pieces[0].symbols, index)
    return index.ids[0], _spelled(index.symbols[0], index)


def _spelled(symbols: np.ndarray, index: Index) -> str:
    found = [index.symbol_table[number] for number in symbols]
    return "".join(symbol for symbol in found if symbol not in SPECIAL[:3])


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def _say(text: str) -> None:
    print(text, flush=True)


def _warn(text: str) -> None:
    _say(f"⚠️  {text}")


if __name__ == "__main__":
    sys.exit(foreground_main(_work))
