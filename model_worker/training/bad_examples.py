"""The examples of a run that could not be read while training, and how many may be."""

from __future__ import annotations

from collections.abc import Iterable

from shared.errors import TandemError


class BadExamples:
    """Counts examples, each once, however many batches it was reported for."""

    def __init__(self, rows: Iterable[int], num_rows: int, max_bad_fraction: float):
        """`rows`: those that are known already; `num_rows`: of the whole index."""
        self._rows = set(rows)
        self._num_rows = num_rows
        self._max_bad_fraction = max_bad_fraction
        self._last_reason = ""

    def add(self, row: int, reason: str) -> bool:
        """Note a row and why it could not be read; False when it is known."""
        is_new = row not in self._rows
        self._rows.add(row)
        self._last_reason = reason
        return is_new

    def raise_if_too_many(self) -> None:
        """Stop a run whose data is falling apart.

        Raises:
            TandemError: more examples failed than the run allows.
        """
        if len(self._rows) > self._max_bad_fraction * self._num_rows:
            raise TandemError(
                f"{len(self._rows)} of {self._num_rows} examples could not be read, more than "
                f"--max-bad-fraction {self._max_bad_fraction:g} allows. quarantine.jsonl names "
                f"them; the last: {self._last_reason.rstrip('.') or 'known before'}."
            )
