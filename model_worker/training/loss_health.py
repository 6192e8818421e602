"""What is wrong with a loss, counted in the graph: parts that are no numbers, weights of nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from shared.errors import TaskError
from shared.task.batch import WEIGHT
from shared.task.model_side import ModelSide
from shared.task.users_file import line_of, users_line_of

# A batch may have nothing to learn from (no word that is masked, say); so many in a row have a reason.
_MOST_WITHOUT_WEIGHT = 10


class LossHealth:
    """Counts in how many of the last batches, without a gap, each thing was wrong."""

    def __init__(self, task: ModelSide, parts: Sequence[str]):
        self._task, self._parts = task, parts
        # One number for each part, and behind them one for the weight.
        self.in_row = tf.Variable(tf.zeros([len(parts) + 1], tf.int64), trainable=False)

    def wrong_in(
        self, parts: Mapping[str, tf.Tensor], weight: tf.Tensor, batch: Mapping[str, tf.Tensor]
    ) -> tf.Tensor:
        """What is wrong in a batch's loss, in the graph that computes it: bool (parts + 1,)."""
        wrong = [~tf.math.is_finite(parts[name]) for name in self._parts]
        wrong.append((tf.reduce_sum(batch[WEIGHT]) > 0.0) & ~(weight > 0.0))
        return tf.stack(wrong)

    def note(self, wrong: tf.Tensor) -> None:
        """Count on, in the graph, with what was wrong in the next batch."""
        self.in_row.assign(tf.where(wrong, self.in_row + 1, 0))

    def forget(self) -> None:
        """Nothing was wrong so far."""
        self.in_row.assign(tf.zeros_like(self.in_row))

    def raise_if_weightless(self, counts: np.ndarray) -> None:
        """`counts` are those of `in_row`.

        Raises:
            TaskError: batch after batch, the losses were divided by nothing.
        """
        if counts[-1] >= _MOST_WITHOUT_WEIGHT:
            raise TaskError(
                f"{line_of(self._task.weight)}: the weight of the last {int(counts[-1])} batches "
                "was not above 0, although they hold real examples. The losses are divided by it."
            )

    def in_words(self) -> str:
        """Why the last step did not work; with the line, where the task is a user's file."""
        line = users_line_of(self._task.losses)
        counts = self.in_row.numpy()[:-1]
        spoilt = [repr(name) for name, count in zip(self._parts, counts, strict=True) if count]
        if spoilt:
            return f"{line}the part {', '.join(spoilt)} of the loss is not finite"
        return f"{line}the loss is finite, and its gradient is not"
