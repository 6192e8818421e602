"""Going back to the last checkpoint: how often a run may without getting anywhere."""

from __future__ import annotations

from shared.errors import TandemError

_MOST = 3


class RollBack(Exception):
    """The numbers broke down. Where it is known what they were trained on, it is written down."""


class RollBacks:
    """Counts roll-backs to weights that are the same each time."""

    def __init__(self) -> None:
        self._num_applied: int | None = None
        self._count = 0

    def note(self, step: int, num_applied: int, why: str = "") -> None:
        """The run broke down by this step; the weights it goes back to have changed so often.

        `why` the last of its steps did not work, in words with the line of the task, where that is
        known. That there is a newer checkpoint shows nothing: steps that are left out bring it about too.

        Raises:
            TandemError: skipping batches has not helped, and would not the next time.
        """
        self._count = self._count + 1 if num_applied == self._num_applied else 1
        self._num_applied = num_applied
        if self._count >= _MOST:
            # Weights that no step has changed yet were not spoilt by steps that are too large.
            remedy = (
                "Look there for a logarithm, a root or a division of zero, also on padding"
                if why and not num_applied
                else "The same command with a lower --learning-rate or --gradient-clip goes on from "
                "the last checkpoint"
            )
            raise TandemError(
                f"{why + '. ' if why else ''}The numbers of the training broke down {self._count} "
                f"times by step {step}, each time at other batches (skipped.jsonl names those that "
                f"are known), so it is not the data. {remedy}."
            )
