"""`python -m model_worker.speech.speaking.speak`: the child that `launcher.py speak` starts; same flags.

Everything that can be wrong with the input is found before TensorFlow is loaded.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from model_worker.checkpoints.averaged import averaged_checkpoint
from model_worker.speech.speaking.reference_clip import mel_of_recording, mel_of_speaker
from model_worker.speech.speaking.speaking_device import fix_speaking_device
from model_worker.vocoder.own_vocoder import own_vocoder
from model_worker.vocoder.trained_run import TrainedRun, is_run, trained_run
from shared.errors import InputError
from shared.plan.index import Index
from shared.run.files import make_folder, npy_bytes, write_file
from shared.speech.command_flags import GRIFFIN_LIM, read_speak_flags
from shared.speech.mel import HOP, SAMPLE_RATE
from shared.speech.text.encoder import EncodedPiece, TextEncoder
from shared.speech.text.lexicon import Lexicon
from shared.speech.wav import wav_bytes
from shared.worker.foreground import foreground_main, quiet_libraries
from shared.worker.start import open_run, start_tensorflow

_MAX_TEXT_BYTES = 64 << 20
_SHOWN_SYMBOLS = 20


class Utterance(NamedTuple):
    """What goes into one wav, and where it and its mel are written (None: nowhere)."""

    pieces: list[EncodedPiece]
    wav: Path | None
    mel: Path | None


def _work(arguments: list[str]) -> int:
    started_s = time.perf_counter()
    flags = read_speak_flags(arguments)
    run, config = open_run(flags, "Name the directory of a trained run, such as runs/NAME.")
    index = Index.load(run.index)
    if flags.reference:
        reference_mel = mel_of_recording(flags.reference, config, index.mel_basis)
    else:
        reference_mel = mel_of_speaker(flags.speaker, index, config)
    lexicon = Lexicon.read(flags.lexicon) if flags.lexicon else None
    utterances = _utterances(flags, TextEncoder.of_index(index, lexicon))
    checkpoint = averaged_checkpoint(run, lambda text: _say(f"⚠️  {text}"), "to speak with")
    vocoder_run, saved_model = _vocoder_named(flags.vocoder, run.path)
    _make_folders(utterances)
    _say("⏳ Loading the voice, which takes a few seconds")
    device_kind = fix_speaking_device(config, _say)
    with quiet_libraries():
        start_tensorflow("model", device_kind, config)
        # These import TensorFlow, whose device had to be settled first.
        from model_worker.speech.speaking.loaded_voice import Voice, load_model, silence
        from model_worker.speech.speaking.vocoder import chosen_vocoder

        voice = Voice(load_model(index, config.task.model_size, checkpoint))
        voice.warm_up(reference_mel)
        vocoder = chosen_vocoder(vocoder_run or saved_model, index.mel_basis)
    if flags.out or flags.out_dir:
        vocoder(silence(8))
    ready_s = time.perf_counter()
    num_frames = 0
    for utterance in utterances:
        mels = voice.speak_pieces(utterance.pieces, reference_mel, flags.speed, flags.pitch)
        num_frames += sum(len(mel) for mel in mels)
        if utterance.wav:
            samples = np.concatenate([vocoder(mel) for mel in mels])
            write_file(utterance.wav, wav_bytes(samples, SAMPLE_RATE))
        if utterance.mel:
            write_file(utterance.mel, npy_bytes(np.concatenate(mels).T))
    took_s = time.perf_counter() - ready_s
    by = f", {vocoder.name}" if utterances[0].wav else ""
    place = flags.out or flags.out_dir or flags.mel
    _say(_ending(place, len(utterances), num_frames, took_s, ready_s - started_s, by))
    return 0


def _vocoder_named(named: str | None, voice: Path) -> tuple[TrainedRun | None, str | None]:
    """A vocoder's run or a SavedModel's folder; neither for Griffin-Lim.

    Raises:
        InputError: what was named is none of them.
    """

    def warn(text: str) -> None:
        _say(f"⚠️  {text}")

    if named is None:
        choice = own_vocoder(voice, warn)
        if choice.why:
            _say(f"🎙  {choice.why}")
        return choice.run, None
    if named == GRIFFIN_LIM:
        return None, None
    if is_run(named):
        return trained_run(named, warn), None
    if (Path(named) / "saved_model.pb").is_file():
        return None, named
    raise InputError(
        f"--vocoder {named}: is not a SavedModel folder, nor the run directory of a --task vocoder, "
        f"nor {GRIFFIN_LIM}."
    )


def _utterances(flags: argparse.Namespace, encoder: TextEncoder) -> list[Utterance]:
    """What is to be spoken, read as the corpus was.

    Raises:
        InputError: nothing of it can be.
    """
    text = flags.text if flags.text is not None else _read_text(Path(flags.text_file))
    utterances = []
    if flags.out_dir:
        for number, line in enumerate(text.split("\n"), 1):
            try:
                pieces = encoder.encode(line)
            except InputError as error:
                raise InputError(f"{flags.text_file}: line {number}: {error}") from None
            if pieces:
                mel = Path(flags.mel) / f"{number:04d}.npy" if flags.mel else None
                utterances.append(Utterance(pieces, Path(flags.out_dir) / f"{number:04d}.wav", mel))
            elif line.strip():
                _say(f"⚠️  Line {number} has nothing that can be spoken: {line.strip()[:40]!r}")
    elif pieces := encoder.encode(text):
        wav, mel = Path(flags.out) if flags.out else None, Path(flags.mel) if flags.mel else None
        utterances.append(Utterance(pieces, wav, mel))
    if encoder.unknown:
        _say(f"⚠️  Skipped, because the training texts never had them: {_left_out(encoder.unknown)}")
    if not utterances:
        place = "--text" if flags.text is not None else flags.text_file
        raise InputError(f"{place}: there is nothing in it that can be spoken.")
    return utterances


def _left_out(unknown: dict[str, str]) -> str:
    """Each symbol with the first word that has it: "ï in naïve, é in café"."""
    shown = [
        f"{symbol} in {word}" if word not in ("", symbol) else symbol
        for symbol, word in list(unknown.items())[:_SHOWN_SYMBOLS]
    ]
    more = len(unknown) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _read_text(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise InputError(f"--text-file {path}: can't be read ({error.strerror}).") from None
    if len(content) > _MAX_TEXT_BYTES:
        raise InputError(f"--text-file {path}: is larger than {_MAX_TEXT_BYTES >> 20} MB.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"--text-file {path}: is not UTF-8 text. Save it as UTF-8.") from None


def _make_folders(utterances: list[Utterance]) -> None:
    """Before the long part: places that can't be written to are known by then."""
    for path in (utterances[0].wav, utterances[0].mel):
        if path:
            make_folder(path.parent)
            if path.is_dir():
                raise InputError(f"{path}: is a folder; name a file in it.")


def _ending(
    place: str, num_files: int, num_frames: int, took_s: float, loading_s: float, by: str
) -> str:
    speech_s = num_frames * HOP / SAMPLE_RATE
    files = f" ({num_files} files)" if num_files > 1 else ""
    return (
        f"🔊 {place}{files}: {speech_s:.2f} s of speech in {took_s:.2f} s "
        f"(real-time factor {took_s / max(speech_s, 1e-9):.3f}{by}; {loading_s:.1f} s to load)"
    )


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(foreground_main(_work))
