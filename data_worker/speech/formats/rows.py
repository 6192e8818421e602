"""One row of a data set's metadata, and one row that was left out."""

from __future__ import annotations

from typing import NamedTuple

BAD, FILTERED = "bad", "filtered"
DEFAULT_SPEAKER = "default"


class Row(NamedTuple):
    """One utterance as the metadata describe it."""

    id: str
    path: str  # of the audio, relative to the data folder, with "/"
    text: str
    speaker: str
    line: int  # in the metadata file, from 1
    metadata: str  # name of the metadata file
    root: int  # 0 = the training data's folder, 1 = the validation data's
    split: int | None  # 0 train, 1 validation, None = to be decided by the hold-out


class LeftOut(NamedTuple):
    """One row that is not trained on. Filtered rows are sound, but not wanted."""

    id: str
    line: int
    path: str
    kind: str  # bad or filtered
    reason: str
    metadata: str = ""
    root: int = 0


def leave_out(row: Row, kind: str, reason: str) -> LeftOut:
    return LeftOut(row.id, row.line, row.path, kind, reason, row.metadata, row.root)
