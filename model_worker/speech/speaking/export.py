"""`python -m model_worker.speech.speaking.export`: the child that `launcher.py export` starts; same flags.

DIR/saved_model.pb  variables/     signatures mel, waveform, reference
DIR/symbols.json                   symbol table, front end, language, statistics, speakers
DIR/voices.npy                     float32 (speakers, 192, 80): a reference of each speaker
DIR/README.md                      how to use it
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
from model_worker.speech.speaking.export_usage import usage
from model_worker.speech.speaking.reference_clip import mel_of_recording, mel_of_speaker
from model_worker.vocoder.own_vocoder import own_vocoder
from shared.config.settings import Config
from shared.devices.gpus import worker_environment
from shared.errors import InputError
from shared.plan.index import Index
from shared.run.files import make_folder, npy_bytes
from shared.speech.batch import REFERENCE_FRAMES
from shared.speech.command_flags import read_export_flags
from shared.speech.corpus_statistics import Statistics
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


def _work(arguments: list[str]) -> int:
    flags = read_export_flags(arguments)
    run, config = open_run(flags, "Name the directory of a trained run, such as runs/NAME.")
    out = Path(flags.out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out}: already holds something. Name a new folder.")
    index = Index.load(run.index)
    voices = _voices(flags.reference, index, config)
    checkpoint = averaged_checkpoint(run, lambda text: _say(f"⚠️  {text}"), "to speak with")
    choice = own_vocoder(run.path, lambda text: _say(f"⚠️  {text}"))
    if choice.why:
        _say(f"🎙  {choice.why}")
    make_folder(out.parent)
    # A model that is saved on the CPU is loaded anywhere.
    os.environ.update(worker_environment(None))
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with quiet_libraries():
            tf = start_tensorflow("model", "cpu", config)
            from model_worker.speech.speaking.exported_voice import ExportedVoice
            from model_worker.speech.speaking.loaded_voice import load_model
            from model_worker.vocoder.speaking import load_generator

            model = load_model(index, config.task.model_size, checkpoint)
            generator = load_generator(choice.run) if choice.run else None
            exported = ExportedVoice(
                model, index.mel_basis, config.task.normalise_loudness, generator
            )
            tf.saved_model.save(exported, str(beside), signatures=exported.signatures())
        statistics = dataclasses.asdict(Statistics.of_index(index))
        about = _about(index, list(voices), statistics, checkpoint.step)
        (beside / "symbols.json").write_text(
            json.dumps(about, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
        (beside / "voices.npy").write_bytes(npy_bytes(np.stack(list(voices.values()))))
        readme = usage(
            out.name, about["frontend"], about["language"], about["example"]["text"],
            SAMPLE_RATE, REFERENCE_FRAMES, "its own vocoder" if choice.run else "Griffin-Lim",
        )  # fmt: skip
        (beside / "README.md").write_text(readme, encoding="utf-8")
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


def _about(index: Index, speakers: list[str], statistics: dict, step: int) -> dict:
    """The content of symbols.json."""
    text, symbols = _example(index)
    return {
        "format": "tandem-voice",
        "format_version": 1,
        "symbol_table": index.symbol_table,
        "frontend": index.text["frontend"],
        "language": index.text["language"],
        "statistics": statistics,
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


if __name__ == "__main__":
    sys.exit(foreground_main(_work))
