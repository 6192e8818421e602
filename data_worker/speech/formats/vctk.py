"""VCTK's folders: wav48…/SPEAKER/… beside txt/SPEAKER/…, one text file per utterance."""

from __future__ import annotations

import os
from pathlib import Path

from data_worker.speech.formats.audio_names import AUDIO_SUFFIXES
from data_worker.speech.formats.metadata_text import lines_of, read_bytes
from data_worker.speech.formats.rows import BAD, LeftOut, Row
from shared.errors import DataError
from shared.plan.index import TRAIN_ROOT, VALIDATION


def is_vctk(folder: Path) -> bool:
    return (folder / "txt").is_dir() and _audio_folder(folder) is not None


def _audio_folder(folder: Path) -> Path | None:
    folders = sorted(
        (entry for entry in folder.iterdir() if entry.name.startswith("wav") and entry.is_dir()),
        key=lambda entry: ("silence_trimmed" not in entry.name, entry.name),
    )
    return folders[0] if folders else None


def parse(folder: Path, root: int) -> tuple[list[Row], list[LeftOut]]:
    """Every utterance, and those of which the recording or the text is missing.

    `line` counts the utterances, as there is no metadata file to have lines.

    Raises:
        DataError: the folder is not laid out like VCTK.
    """
    audio = _audio_folder(folder)
    texts = folder / "txt"
    if audio is None or not texts.is_dir():
        raise DataError(
            f"{folder}: has no folders txt and wav48 (or wav48_silence_trimmed), as VCTK "
            f"has them. Give the folder that holds both, or another --metadata-format."
        )
    split = None if root == TRAIN_ROOT else VALIDATION
    rows: list[Row] = []
    left_out: list[LeftOut] = []
    number = 0
    speakers = sorted(
        {entry.name for top in (audio, texts) for entry in top.iterdir() if entry.is_dir()}
    )
    for speaker in speakers:
        recorded = _recordings(audio / speaker)
        written = {name[:-4] for name in _names_in(texts / speaker) if name.endswith(".txt")}
        for utterance in sorted(recorded.keys() | written):
            number += 1
            name = recorded.get(utterance, f"{utterance}.wav")
            relative = f"{audio.name}/{speaker}/{name}"
            metadata = f"txt/{speaker}/{utterance}.txt"
            problem, text = "", ""
            if utterance not in recorded:
                problem = f"there is no recording of it in {audio.name}/{speaker}"
            elif utterance not in written:
                problem = f"there is no text file {metadata}"
            else:
                try:
                    path = texts / speaker / f"{utterance}.txt"
                    text = " ".join(lines_of(path, read_bytes(path))).strip()
                except DataError:
                    problem = f"{metadata} can't be read as UTF-8"
            if problem:
                left_out.append(LeftOut(utterance, number, relative, BAD, problem, metadata, root))
            else:
                rows.append(Row(utterance, relative, text, speaker, number, metadata, root, split))
    return rows, left_out


def _names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def _recordings(folder: Path) -> dict[str, str]:
    """Utterance -> file name; of two microphones the first is used."""
    found: dict[str, str] = {}
    for name in _names_in(folder):
        stem, suffix = os.path.splitext(name)
        if suffix.lower() not in AUDIO_SUFFIXES:
            continue
        for microphone in ("_mic1", "_mic2"):
            stem = stem.removesuffix(microphone)
        found.setdefault(stem, name)
    return found
