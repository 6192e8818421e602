"""The examples that are no longer used, and the batch from which each of them counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shared.errors import ProtocolError

if TYPE_CHECKING:
    import numpy as np

Entry = tuple[int, ...]  # (row, from_batch) or (row, from_batch, until_batch)


@dataclass(frozen=True)
class Exclusions:
    """An immutable, growing list of (row, from_batch) and (row, from_batch, until_batch).

    All are integers ≥ 0: a row of the index, the number in the stream of the first batch that must
    do without it and, where that does not hold for ever, of the first that need not any more. The
    version is the number of entries, so a ticket that names a version names the same entries on
    every side.
    """

    entries: tuple[Entry, ...] = ()

    @property
    def version(self) -> int:
        return len(self.entries)

    @cached_property
    def rows(self) -> set[int]:
        """Every row that some batch must do without."""
        return {entry[0] for entry in self.entries}

    @cached_property
    def _from(self) -> dict[int, int]:
        """For each row that is excluded for good, from which batch on."""
        first: dict[int, int] = {}
        for row, from_batch, *until in self.entries:
            if not until:
                first[row] = min(from_batch, first.get(row, from_batch))
        return first

    @cached_property
    def _spans(self) -> dict[int, list[tuple[int, int]]]:
        spans: dict[int, list[tuple[int, int]]] = {}
        for row, from_batch, *until in self.entries:
            if until:
                spans.setdefault(row, []).append((from_batch, until[0]))
        return spans

    def excludes(self, row: int, batch: int) -> bool:
        """Whether batch `batch` of the stream must do without `row`."""
        from_batch = self._from.get(row)
        if from_batch is not None and batch >= from_batch:
            return True
        return any(first <= batch < end for first, end in self._spans.get(row, ()))

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

    def with_added(self, row: int, from_batch: int, until_batch: int | None = None) -> "Exclusions":
        """These and one more; itself when that excludes nothing further."""
        until = () if until_batch is None else (until_batch,)
        entry = _checked_entry((row, from_batch, *until))
        if until_batch is None:
            is_known = self._from.get(row, from_batch + 1) <= from_batch
        else:
            is_known = all(self.excludes(row, n) for n in range(from_batch, until_batch))
        return self if is_known else Exclusions((*self.entries, entry))

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
        """Plain lists for JSON or msgpack: [[row, from_batch], …] in the order of addition.

        An entry that does not hold for ever has its until_batch as well.
        """
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


def _checked_entry(entry: Any) -> Entry:
    if isinstance(entry, (list, tuple)) and len(entry) in (2, 3):
        # bool is an int to Python, but `true` in a file is a mistake.
        if all(hasattr(part, "__index__") and not isinstance(part, bool) for part in entry):
            numbers = tuple(part.__index__() for part in entry)
            if min(numbers) >= 0 and (len(numbers) == 2 or numbers[1] < numbers[2]):
                return numbers
    raise ProtocolError(
        f"{entry!r} is not an exclusion; expected [row, from_batch] or [row, from_batch, "
        "until_batch], integers from 0 up."
    )
