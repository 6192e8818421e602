"""How often a run may go back without getting anywhere."""

from __future__ import annotations

from shared.errors import TandemError

_MOST = 3


class RollBacks:
    """Counts roll-backs to weights that are the same each time."""

    def __init__(self) -> None:
        self._num_applied: int | None = None
        self._count = 0

    def note(self, step: int, num_applied: int) -> None:
        """The run broke down by this step; the weights it goes back to have changed so often.

        That there is a newer checkpoint shows nothing: steps that are left out bring it about too.

        Raises:
            TandemError: leaving out batches has not helped, and would not the next time.
        """
        self._count = self._count + 1 if num_applied == self._num_applied else 1
        self._num_applied = num_applied
        if self._count >= _MOST:
            raise TandemError(
                f"the numbers of the training broke down {self._count} times by step {step}, each "
                "time at other batches (skipped.jsonl names those that are known), so it is not the data. The "
                "same command with a lower --learning-rate or --gradient-clip goes on from the last "
                "checkpoint."
            )
