"""The order of an epoch's batches where a step has several: those of one step are alike in length."""

from __future__ import annotations

import numpy as np


def in_steps(order: np.ndarray, buckets: np.ndarray, begun: int, per_step: int) -> np.ndarray:
    """An order in which the batches of each step are from one bucket, wherever that can be.

    What is left of the buckets makes mixed steps of neighbours. The longest of that goes to the two
    ends of the epoch, where a step may be shared with the epoch before or after it.

    Args:
        order: the batches, shuffled, (batches,).
        buckets: the bucket of each batch, the longest last, (batches,).
        begun: batches that the epoch before has left in its last step.
        per_step: batches in a step.
    """
    steps: list[list[int]] = []
    begun_steps: dict[int, list[int]] = {}
    for batch in order.tolist():
        step = begun_steps.setdefault(int(buckets[batch]), [])
        step.append(batch)
        if len(step) == per_step:
            steps.append(step)
            del begun_steps[int(buckets[batch])]
    left = [batch for bucket in sorted(begun_steps) for batch in begun_steps[bucket]]
    num_first = min(-begun % per_step, len(order))
    num_last = (len(order) - num_first) % per_step
    while len(left) < num_first + num_last:
        left = sorted(left + steps.pop(), key=lambda batch: int(buckets[batch]))
    rest = len(left) - num_first
    first, left = left[rest:], left[:rest]
    rest = len(left) - num_last
    last, left = left[rest:], left[:rest]
    mixed = [left[place : place + per_step] for place in range(0, len(left), per_step)]
    # Whole steps stand in the shuffled order of their first batches, the mixed ones among them.
    rank = {batch: place for place, batch in enumerate(order.tolist())}
    whole = sorted(steps + mixed, key=lambda step: rank[step[0]])
    return np.array([*first, *(batch for step in whole for batch in step), *last], order.dtype)
