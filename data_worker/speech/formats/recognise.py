"""Data sets as they lie on disk: recognised by looking, parsed into rows.

What belongs together: a folder (or a metadata file) becomes a `MetadataSet`; `parse` turns a source
into rows and into the rows that can't be understood.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from data_worker.speech.formats import vctk
from data_worker.speech.formats.audio_names import AudioNames, BadName, id_of
from data_worker.speech.formats.columns import Columns, columns_of
from data_worker.speech.formats.metadata_text import lines_of, read_bytes
from data_worker.speech.formats.rows import BAD, DEFAULT_SPEAKER, LeftOut, Row
from shared.errors import DataError
from shared.plan.index import TRAIN, TRAIN_ROOT, VALIDATION

_SUFFIXES = (".csv", ".txt", ".tsv", ".psv")
_TRAIN_NAMES = (
    "metadata_train.csv",
    "metadata.csv",
    "metadata.txt",
    "validated.tsv",
    "train.tsv",
    "train.csv",
    "train.txt",
)
_EVAL_NAMES = ("metadata_eval.csv", "metadata_val.csv", "metadata_valid.csv", "metadata_dev.csv")
_VAL_NAMES = (*_EVAL_NAMES, "dev.tsv", "val.csv", "val.txt")
_HELD_OUT_OF = {
    "metadata_train.csv": _EVAL_NAMES,
    "train.tsv": ("dev.tsv",),
    "train.csv": ("val.csv",),
    "train.txt": ("val.txt",),
}
_MAX_LINE_CHARACTERS = 100_000


class MetadataSet(NamedTuple):
    """One data set: its folder, its kind, and its metadata files with the split they stand for."""

    folder: Path
    root: int
    format: str  # as wanted: auto, or the name of a format
    files: tuple[tuple[Path, int | None], ...]  # empty for VCTK, which has one file per text


class Parsed(NamedTuple):
    """What the metadata of one data set says, and what of it can not be an example."""

    rows: list[Row]
    left_out: list[LeftOut]
    format: str


def look(location: str, wanted: str, root: int, *, with_held_out: bool = True) -> MetadataSet:
    """Find the metadata of a data set, given its folder or its metadata file.

    Args:
        wanted: a format's name, or auto.
        root: 0 for the training data, 1 for the validation data.
        with_held_out: whether an evaluation file beside the training file is used as well.

    Raises:
        DataError: there is nothing there that we know.
    """
    if not location or "\0" in location:
        raise DataError("No training data was given. Name its folder with --train-data DIR.")
    path = Path(location)
    flag = "--train-data" if root == TRAIN_ROOT else "--val-data"
    split = None if root == TRAIN_ROOT else VALIDATION
    try:
        if path.is_file():
            return MetadataSet(path.parent, root, wanted, ((path, split),))
        if not path.exists():
            raise DataError(f"{path}: there is no such folder. Check {flag}.")
        if not path.is_dir():
            raise DataError(f"{path}: is neither a folder nor a file. Check {flag}.")
        names = sorted(entry.name for entry in os.scandir(path) if entry.is_file())
    except OSError as error:
        raise DataError(f"{path}: can't be read ({error.strerror}). Check {flag}.") from None
    preferred = _TRAIN_NAMES if root == TRAIN_ROOT else (*_VAL_NAMES, *_TRAIN_NAMES)
    is_named = not set(preferred).isdisjoint(names)  # a metadata file says more than folders do
    if wanted == "vctk" or (wanted == "auto" and not is_named and vctk.is_vctk(path)):
        return MetadataSet(path, root, "vctk", ())
    file = _choose(path, names, preferred)
    files = [(path / file, split)]
    held_out = next((name for name in _HELD_OUT_OF.get(file, ()) if name in names), None)
    if root == TRAIN_ROOT and with_held_out and held_out:
        files = [(path / file, TRAIN), (path / held_out, VALIDATION)]
    return MetadataSet(path, root, wanted, tuple(files))


def _choose(path: Path, names: list[str], preferred: tuple[str, ...]) -> str:
    for name in preferred:
        if name in names:
            return name
    others = [
        name
        for name in names
        if name.lower().endswith(_SUFFIXES)
        and not name.lower().startswith(("readme", "license", "licence", "."))
    ]
    rowed = [name for name in others if b"|" in (path / name).open("rb").read(4096)]
    if len(rowed) == 1:
        return rowed[0]
    found = f"found {', '.join(rowed[:5])}" if rowed else "found none"
    raise DataError(
        f"{path}: no metadata recognised ({found}); expected metadata.csv, metadata_train.csv, "
        f"Common Voice's validated.tsv or VCTK's folders txt and wav48. If the metadata has "
        f"another name, give that file instead of the folder."
    )


def digest(source: MetadataSet) -> str:
    """SHA-256 of the metadata's content, without parsing it; names and times stand for VCTK's."""
    found = hashlib.sha256(source.format.encode())
    for path, split in source.files:
        found.update(f"\n{path.name} {split}\n".encode("utf-8", "surrogateescape"))
        found.update(read_bytes(path))
    if not source.files:
        for folder, _, names in sorted(os.walk(source.folder)):
            for name in sorted(names):
                entry = os.path.join(folder, name)
                line = os.path.relpath(entry, source.folder)
                if name.endswith(".txt"):
                    status = os.stat(entry)
                    line += f" {status.st_size} {status.st_mtime_ns}"
                found.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return found.hexdigest()


def parse(source: MetadataSet) -> Parsed:
    """Every row of the data set, those that can't be understood apart.

    Raises:
        DataError: a metadata file can't be read at all.
    """
    if source.format == "vctk":
        return Parsed(*vctk.parse(source.folder, source.root), "vctk")
    rows: list[Row] = []
    left_out: list[LeftOut] = []
    found = source.format
    for path, split in source.files:
        lines = lines_of(path, read_bytes(path))
        columns = columns_of(str(path), lines, source.format)
        found = columns.format
        names = AudioNames(
            str(source.folder),
            ("clips/", "") if columns.format == "common-voice" else ("wavs/", "", "wav/", "audio/"),
        )
        for result in _rows_of(path, lines, columns, names, source.root, split):
            if isinstance(result, Row):
                rows.append(result)
            else:
                left_out.append(result)
    return Parsed(rows, left_out, found)


def _rows_of(
    path: Path, lines: list[str], columns: Columns, names: AudioNames, root: int, split: int | None
) -> Iterator[Row | LeftOut]:
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (columns.has_header and number == first + 1):
            continue
        if len(line) > _MAX_LINE_CHARACTERS:
            name = line[:200].split(columns.separator)[0]
            yield LeftOut(
                id_of(name),
                number,
                name,
                BAD,
                f"the line has {len(line):,} characters, at most {_MAX_LINE_CHARACTERS:,} are read",
                path.name,
                root,
            )
            continue
        fields = [field.strip() for field in columns.fields(line)]
        name = fields[columns.name] if columns.name < len(fields) else fields[0]
        reason = _misfit(line, fields, columns)
        relative = name
        if not reason:
            try:
                relative = names.find(name)
            except BadName as error:
                reason, relative = str(error), error.path
        if reason:
            yield LeftOut(id_of(name[:200]), number, relative[:1024], BAD, reason, path.name, root)
            continue
        text = next((fields[c] for c in columns.texts if c < len(fields) and fields[c]), "")
        if columns.separator == "\t" and len(text) > 1 and text[0] == text[-1] == '"':
            text = text[1:-1].replace('""', '"')
        speaker = ""
        if columns.speaker is not None and columns.speaker < len(fields):
            speaker = fields[columns.speaker]
        yield Row(
            id_of(name), relative, text, speaker or DEFAULT_SPEAKER, number, path.name, root, split
        )


def _misfit(line: str, fields: list[str], columns: Columns) -> str:
    """Why a line does not fit its columns, or an empty string."""
    if "\0" in line:
        return "the line holds a NUL character"
    fewest, most = columns.num_columns
    if not fewest <= len(fields) <= most:
        found = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
        return f"the line has {found}; expected {columns.expected}"
    return ""
