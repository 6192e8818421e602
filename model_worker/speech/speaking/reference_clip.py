"""The clip whose voice is spoken in: from a recording that is given, or from the run's own data."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import soundfile

from shared.config.option import nearest
from shared.config.settings import Config
from shared.errors import InputError
from shared.plan.index import TRAIN, Index, root_folders
from shared.speech.batch import REFERENCE_FRAMES
from shared.speech.mel import HOP, SAMPLE_RATE, log_mel
from shared.speech.recording import levelled, open_recording, peak_of, resampled
from shared.speech.reference import tiled
from shared.speech.trimming import trim

MIN_SECONDS, MAX_SECONDS = 0.3, 120.0
_SOUNDLESS_PEAK = 1e-4
_MAX_CHANNELS = 16
_LEAST_RATE, _MOST_RATE = 1_000, 768_000  # Hz
_ROWS_TRIED = 8


def mel_of_recording(path: str, config: Config, mel_basis: np.ndarray) -> np.ndarray:
    """The reference mel of any recording: float32 (REFERENCE_FRAMES, 80), natural log.

    The recording is trimmed and levelled as the corpus of the run was.

    Raises:
        InputError: it can't be read, is silent, too short or too long.
    """
    audio, rate = _read(Path(path))
    if config.task.trim_silence:
        start, stop = trim(audio, rate, config.task.trim_db)
        audio = audio[start:stop]
    if len(audio) < MIN_SECONDS * rate:
        raise InputError(
            f"{path}: holds {len(audio) / rate:.2f} s of speech; a reference needs at least "
            f"{MIN_SECONDS} s, and a few seconds are better."
        )
    return reference_mel_of(_levelled(audio, rate, config), mel_basis)


def mel_of_speaker(name: str | None, index: Index, config: Config) -> np.ndarray:
    """The reference mel of a training clip of the speaker (default: the first one).

    Raises:
        InputError: there is no such speaker, or the recordings are no longer there.
    """
    number = speaker_number(name, index)
    spoken = np.flatnonzero((index.speaker == number) & (index.split == TRAIN))
    # Clips that fill the reference come first; a short one would have to be repeated.
    rows = sorted(
        spoken.tolist(), key=lambda row: -min(int(index.num_frames[row]), REFERENCE_FRAMES)
    )
    folders = root_folders(config.data.train_data or "", config.data.val_data)
    problem = "the run has no training clip of this speaker"
    for row in rows[:_ROWS_TRIED]:
        try:
            audio, rate = _read(folders[index.root[row]] / index.paths[row])
        except InputError as error:
            problem = str(error)
            continue
        start = int(index.start[row])
        audio = audio[start : start + int(index.num_samples[row])]
        if len(audio) >= HOP:
            return reference_mel_of(_levelled(audio, rate, config), index.mel_basis)
        problem = f"{index.paths[row]}: is shorter than it was in training."
    raise InputError(
        f"No clip of speaker {index.speakers[number]!r} can be read: {problem} "
        "Give a recording of the voice with --reference FILE."
    )


def speaker_number(name: str | None, index: Index) -> int:
    """The index's number of a speaker.

    Raises:
        InputError: there is none of that name.
    """
    if name is None:
        return 0
    if name in index.speakers:
        return index.speakers.index(name)
    shown = ", ".join(index.speakers[:8]) + (", …" if len(index.speakers) > 8 else "")
    raise InputError(
        f"--speaker {name}: the run has no such speaker.{nearest(name, index.speakers)} "
        f"It knows {len(index.speakers)}: {shown}."
    )


def _read(path: Path) -> tuple[np.ndarray, int]:
    """A whole recording as mono float32 (samples,), and its rate.

    Raises:
        InputError: it is not a recording that can be used.
    """
    try:
        descriptor = open_recording(path)
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: can't be read ({words}).") from None
    if descriptor is None:
        raise InputError(f"{path}: is not a file.")
    try:
        with soundfile.SoundFile(descriptor, closefd=False) as file:
            rate, num_samples = file.samplerate, file.frames
            if not _LEAST_RATE <= rate <= _MOST_RATE or file.channels > _MAX_CHANNELS:
                raise InputError(
                    f"{path}: has {rate:,} Hz and {file.channels} channels; expected "
                    f"{_LEAST_RATE:,} to {_MOST_RATE:,} Hz and at most {_MAX_CHANNELS} channels."
                )
            if num_samples > MAX_SECONDS * rate:
                raise InputError(
                    f"{path}: lasts {num_samples / rate:,.0f} s; give at most {MAX_SECONDS:.0f} s "
                    "of one voice."
                )
            audio = file.read(dtype="float32", always_2d=True).mean(axis=1, dtype=np.float32)
    except soundfile.LibsndfileError as error:
        words = error.error_string.rstrip(".")
        raise InputError(f"{path}: is not audio that can be read ({words}).") from None
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error}).") from None
    finally:
        os.close(descriptor)
    if not len(audio) or not np.isfinite(audio).all() or peak_of(audio) < _SOUNDLESS_PEAK:
        raise InputError(f"{path}: holds no sound. Give a recording of the voice.")
    return audio, rate


def _levelled(audio: np.ndarray, rate: int, config: Config) -> np.ndarray:
    """At 22,050 Hz and, if the corpus was, at the corpus' peak level."""
    if rate != SAMPLE_RATE:
        audio = resampled(audio, rate)
    return levelled(audio, peak_of(audio)) if config.task.normalise_loudness else audio


def reference_mel_of(audio: np.ndarray, mel_basis: np.ndarray) -> np.ndarray:
    """The middle of a clip's mel, repeated where the clip is shorter than a reference."""
    mel = log_mel(audio, mel_basis)
    if len(mel) > REFERENCE_FRAMES:
        start = (len(mel) - REFERENCE_FRAMES) // 2
        return mel[start : start + REFERENCE_FRAMES]
    return tiled(mel)
