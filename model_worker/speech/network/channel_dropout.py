"""Dropout of whole channels, the more of it the more often the examples have been gone through.

A small corpus is learned by heart within minutes, a large one never. What is dropped therefore depends
on the passes over the data: nothing in the first ones, in which every example is still news, and
from then on a little more with each doubling. So a short run is not slowed down, and a long
one does not unlearn how to speak what it has not heard.
"""

from __future__ import annotations

import dataclasses
import math

import tensorflow as tf

# Chosen on 100 recordings of one real voice; docs/tuning.md has what was measured.
_FIRST_PASSES = 8.0  # without any
_PER_DOUBLING = 0.1
_MOST = 0.5
_SALT = 0  # those of the other dropout begin at 1


def rate_after(passes: tf.Tensor) -> tf.Tensor:
    """The share of the channels that is dropped by then."""
    doublings = tf.math.log(tf.maximum(passes, 1e-9) / _FIRST_PASSES) / math.log(2.0)
    return tf.clip_by_value(_PER_DOUBLING * doublings, 0.0, _MOST)


@dataclasses.dataclass(frozen=True)
class ChannelDropout:
    """`channels` of each block in turn; `steps_per_pass` is 0 where nothing is ever dropped."""

    channels: tuple[int, ...]
    steps_per_pass: float = 0.0

    def factors(
        self, num_rows: tf.Tensor, step: tf.Tensor, dtype: tf.DType
    ) -> list[tf.Tensor | None]:
        """What the output of each block is multiplied by, (rows, 1, channels); None where by nothing.

        They follow from the step alone, so that a resumed run draws the same ones. One random
        operation serves all blocks: a GPU does nothing while it waits for the next.
        """
        if not self.steps_per_pass:
            return [None] * len(self.channels)
        passes = tf.cast(step, tf.float32) / self.steps_per_pass
        rate = rate_after(passes)
        seed = tf.stack([tf.cast(step, tf.int32), tf.constant(_SALT, tf.int32)])
        drawn = tf.raw_ops.StatelessRandomUniform(
            shape=tf.stack([num_rows, 1, sum(self.channels)]), seed=seed, dtype=tf.float32
        )
        factors = tf.cast(tf.where(drawn >= rate, 1.0 / (1.0 - rate), 0.0), dtype)
        ends = [sum(self.channels[: at + 1]) for at in range(len(self.channels))]
        return [
            factors[:, :, end - own : end] for own, end in zip(self.channels, ends, strict=True)
        ]
