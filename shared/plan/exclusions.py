"""The examples that are no longer used, and the batch from which each of them counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shared.errors import ProtocolError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Exclusions:
    """An immutable, growing list of (row, from_batch).

    Both are integers ≥ 0: a row of the index, and the number in the stream of the first batch that
    must do without it. The version is the number of entries, so a ticket that names a version
    names the same entries on every side.
    """

    entries: tuple[tuple[int, int], ...] = ()

    @property
    def version(self) -> int:
        return len(self.entries)

    @cached_property
    def first_batch(self) -> dict[int, int]:
        """For each excluded row, the first batch of the stream that does without it."""
        first: dict[int, int] = {}
        for row, from_batch in self.entries:
            first[row] = min(from_batch, first.get(row, from_batch))
        return first

    def excludes(self, row: int, batch: int) -> bool:
        """Whether batch `batch` of the stream must do without `row`."""
        from_batch = self.first_batch.get(row)
        return from_batch is not None and batch >= from_batch

    def first_usable(
        self, candidates: "Sequence[int] | np.ndarray", start: int, batch: int, taken: set[int]
    ) -> int | None:
        """The first candidate, from place `start` on and round, that batch `batch` may use.

        A further exclusion changes the answer only when it excludes the answer itself.

        Args:
            candidates: rows, (n,).
            taken: rows that are not wanted for another reason.
        """
        count = len(candidates)
        for step in range(count):
            row = int(candidates[(start + step) % count])
            if row not in taken and not self.excludes(row, batch):
                return row
        return None

    def with_added(self, row: int, from_batch: int) -> "Exclusions":
        """These and one more; itself when the row is already excluded from that batch on."""
        row, from_batch = _checked_entry((row, from_batch))
        if self.excludes(row, from_batch):
            return self
        return Exclusions((*self.entries, (row, from_batch)))

    def at_version(self, version: int) -> "Exclusions":
        """The first `version` entries: what a ticket with that version was issued with.

        Raises:
            ProtocolError: fewer entries are known.
        """
        if not 0 <= version <= self.version:
            raise ProtocolError(
                f"Version {version} of the exclusions was asked for, but only versions 0 to "
                f"{self.version} are known here. The two sides belong to different runs."
            )
        return self if version == self.version else Exclusions(self.entries[:version])

    def to_json(self) -> list[list[int]]:
        """Plain lists for JSON or msgpack: [[row, from_batch], …] in the order of addition."""
        return [list(entry) for entry in self.entries]

    @classmethod
    def from_json(cls, value: Sequence) -> "Exclusions":
        """Reads what `to_json` gave.

        Raises:
            ProtocolError: the value is anything else.
        """
        if not isinstance(value, (list, tuple)):
            raise ProtocolError(
                f"The exclusions are a {type(value).__name__}; expected a list of "
                "[row, from_batch] pairs."
            )
        return cls(tuple(_checked_entry(entry) for entry in value))


def _checked_entry(entry: Any) -> tuple[int, int]:
    if isinstance(entry, (list, tuple)) and len(entry) == 2:
        # bool is an int to Python, but `true` in a file is a mistake.
        if all(hasattr(part, "__index__") and not isinstance(part, bool) for part in entry):
            row, from_batch = (part.__index__() for part in entry)
            if row >= 0 and from_batch >= 0:
                return row, from_batch
    raise ProtocolError(
        f"{entry!r} is not an exclusion; expected [row, from_batch], two integers from 0 up."
    )
