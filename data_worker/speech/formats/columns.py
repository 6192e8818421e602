"""The columns of metadata: which of them is what, found by looking at the file."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from shared.errors import DataError

LOOKED_AT = 2_000  # lines that decide the columns

_NAME_TITLES = (
    "audio_file",
    "id",
    "path",
    "file",
    "file_name",
    "filename",
    "wav",
    "audio",
    "audio_path",
    "wav_filename",
    "wav_file",
    "audio_filepath",
    "utterance_id",
    "name",
)
# What is read when a file has several: the normalised text first.
_TEXT_TITLES = (
    "normalized_text",
    "normalised_text",
    "normalized_transcription",
    "normalised_transcription",
    "normalized transcription",
    "text",
    "sentence",
    "transcription",
    "transcript",
    "raw_text",
)
_SPEAKER_TITLES = ("speaker_name", "speaker", "speaker_id", "client_id", "speaker id")


class Columns(NamedTuple):
    """Where a row's parts are."""

    format: str
    separator: str
    name: int
    texts: tuple[int, ...]  # the first of these columns that is not empty is the text
    speaker: int | None
    num_columns: tuple[int, int]  # fewest and most
    has_header: bool
    expected: str  # for error messages

    def fields(self, line: str) -> list[str]:
        return line.split(self.separator)


_FIXED = {
    "ljspeech": Columns(
        "ljspeech", "|", 0, (2, 1), None, (2, 3), False, "id|text or id|text|normalised text"
    ),
    "path-text": Columns("path-text", "|", 0, (1,), None, (2, 2), False, "path|text"),
    "path-speaker-text": Columns(
        "path-speaker-text", "|", 0, (2,), 1, (3, 3), False, "path|speaker|text"
    ),
    "coqui": Columns(
        "coqui", "|", 0, (1, 2), 3, (4, 4), False, "audio_file|text|transcription|speaker_name"
    ),
}


def columns_of(path: str, lines: list[str], wanted: str) -> Columns:
    """The columns of a metadata file; `wanted` is a format's name, or auto to look.

    Raises:
        DataError: the file is empty or has none that we know.
    """
    sample = [line for line in lines[:LOOKED_AT] if line.strip()]
    if not sample:
        raise DataError(f"{path}: is empty; expected one line per utterance, such as id|text.")
    separator = (
        "\t" if wanted == "common-voice" or ("\t" in sample[0] and "|" not in sample[0]) else "|"
    )
    titled = _titled(sample[0], separator, wanted)
    if titled:
        return titled
    if wanted == "common-voice":
        raise DataError(
            f"{path}: the first line has no columns client_id, path and sentence, as Common Voice "
            f"has them. Choose another --metadata-format, or auto."
        )
    rows = [line.split("|") for line in sample]
    if wanted in _FIXED:
        return _FIXED[wanted]
    return _guess(path, rows)


def _titled(first_line: str, separator: str, wanted: str) -> Columns | None:
    """The columns that a header line describes, or None if the first line is no header."""
    titles = [title.strip().strip('"').lower() for title in first_line.split(separator)]
    name = next((titles.index(title) for title in _NAME_TITLES if title in titles), None)
    texts = tuple(titles.index(title) for title in _TEXT_TITLES if title in titles)
    speaker = next((titles.index(title) for title in _SPEAKER_TITLES if title in titles), None)
    if name is None or not texts or not (name == 0 or separator == "\t"):
        return None
    if separator == "\t":
        name_of_format = "common-voice"
    elif wanted != "auto":
        name_of_format = wanted
    elif titles[0] == "audio_file":
        name_of_format = "coqui"
    else:
        name_of_format = "path-speaker-text" if speaker is not None else "ljspeech"
    every = separator == "|" and speaker is not None
    fewest = len(titles) if every else max(name, min(texts)) + 1
    return Columns(
        name_of_format,
        separator,
        name,
        texts,
        speaker,
        (fewest, len(titles)),
        True,
        separator.replace("\t", "<tab>").join(titles),
    )


def _guess(path: str, rows: list[list[str]]) -> Columns:
    counts = [len(row) for row in rows]
    usual = statistics.mode(counts)
    if usual == 1:
        raise DataError(
            f"{path}: its lines have no '|' (the first is {'|'.join(rows[0])[:60]!r}); expected "
            f"id|text, id|text|normalised text, path|text, path|speaker|text or Coqui's or Common "
            f"Voice's columns."
        )
    if usual == 2:
        has_three = counts.count(3) > 0
        return _FIXED["ljspeech" if has_three or not _has_suffix(rows) else "path-text"]
    if usual == 3:
        speaker = _second_column_is_a_speaker([row for row in rows if len(row) == 3])
        return _FIXED["path-speaker-text" if speaker else "ljspeech"]
    if usual == 4:
        return _FIXED["coqui"]
    raise DataError(
        f"{path}: most of its lines have {usual} columns and the first line does not name them. "
        f"Add a header such as audio_file|text|transcription|speaker_name."
    )


def _has_suffix(rows: list[list[str]]) -> bool:
    from data_worker.speech.formats.audio_names import without_suffix

    named = [row[0].strip() for row in rows]
    return sum(without_suffix(name) != name for name in named) * 2 > len(named)


def _second_column_is_a_speaker(rows: list[list[str]]) -> bool:
    """Tell path|speaker|text from id|text|normalised text by the words in the columns.

    A speaker's name is short and comes back; a text is mostly longer than a name, and the
    normalised text is much like the text before it.
    """
    second, third = [row[1].strip() for row in rows], [row[2].strip() for row in rows]
    if sum(not text for text in third) * 2 > len(rows):
        return False
    alike = sum(
        a.lower().rstrip(".!?") == b.lower().rstrip(".!?")
        for a, b in zip(second, third, strict=True)
    )
    if alike * 2 > len(rows):
        return False
    words_second = statistics.median(len(text.split()) for text in second)
    words_third = statistics.median(len(text.split()) for text in third)
    comes_back = len(set(second)) * 3 <= len(rows) * 2 and len(set(third)) > len(set(second))
    return words_second <= 2 and (words_third > 2 * words_second or comes_back)
