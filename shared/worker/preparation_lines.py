"""What the preparation tells the launcher: a line of JSON for each thing, one decoder for all."""

from __future__ import annotations

from dataclasses import dataclass

from shared.run.typed_lines import decoder


@dataclass(frozen=True)
class Looking:
    """How far the preparation is."""

    done: int
    total: int  # 0 while it is not known
    what: str


@dataclass(frozen=True)
class Prepared:
    """The index is written; what is in it."""

    usable: int
    train: int
    validation: int
    bad: int
    filtered: int
    noun: str  # what the task calls its examples
    details: str  # in the task's own words, such as their hours; may be empty
    warnings: tuple[str, ...]
    first_reasons: tuple[str, ...]  # why examples are left out, a few of them
    seconds: float
    fingerprint: str
    cached: bool  # whether an index of an earlier run was taken

    @property
    def left_out(self) -> int:
        return self.bad + self.filtered


@dataclass(frozen=True)
class NotPrepared:
    """There is no index, and why: the last line."""

    message: str


PreparationLine = Looking | Prepared | NotPrepared
decode = decoder(PreparationLine.__args__)
