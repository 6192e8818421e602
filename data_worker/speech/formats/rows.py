"""One row of a data set's metadata."""

from __future__ import annotations

from typing import NamedTuple

from shared.task.examples import BAD, DEFAULT_GROUP, FILTERED, Example, LeftOut

__all__ = ["BAD", "DEFAULT_SPEAKER", "FILTERED", "LeftOut", "Row", "leave_out"]
DEFAULT_SPEAKER = DEFAULT_GROUP


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

    def as_example(self) -> Example:
        """The same, as the engine knows it: the speaker is its group, the text its payload."""
        return Example(
            self.id, self.path, self.speaker, self.text, self.line, self.metadata, self.root,
            self.split,
        )  # fmt: skip

    @classmethod
    def of_example(cls, example: Example) -> Row:
        return cls(
            example.id, example.path, example.payload, example.group, example.line,
            example.metadata, example.root, example.split,
        )  # fmt: skip


def leave_out(row: Row, kind: str, reason: str) -> LeftOut:
    return LeftOut(row.id, row.line, row.path, kind, reason, row.metadata, row.root)
