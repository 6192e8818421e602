"""Choosing the fixed shapes of batches: length buckets that waste little on padding."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from shared.task.batch import BatchForm, BatchShape

# Shapes are rounded up to this: kind to GPU tiles, and it keeps the search below small.
SHAPE_MULTIPLE = 8
# A bucket must save more places per epoch than this many average batches hold. Below that it costs
# a traced graph, and rows that always meet the same few others, for nothing.
BUCKET_COST_BATCHES = 1.0
# The search takes time with the square of the number of different lengths.
MAX_LENGTHS = 1024


class EpochCounts(NamedTuple):
    """How the rows of an epoch fill batches; all int64 (buckets,).

    num_rows: rows that travel in batches of the bucket's shape. A bucket's surplus over whole
        batches may travel in the next longer one, where it costs fewer places than a filled-up
        batch.
    num_batches: batches of the bucket's shape.
    """

    num_rows: np.ndarray
    num_batches: np.ndarray


_Lengths = TypeVar("_Lengths", int, np.ndarray)


def round_up(length: _Lengths, multiple: int = SHAPE_MULTIPLE) -> _Lengths:
    return -(-length // multiple) * multiple


def choose_buckets(
    lengths: Sequence[np.ndarray],
    is_training: np.ndarray,
    rows_per_batch: int,
    max_buckets: int,
    form: BatchForm,
) -> tuple[BatchShape, ...]:
    """Chooses the shapes that cost an epoch the fewest places, padding and fillers counted.

    Every row of either split fits the shape of its bucket and those of all later ones: every
    length grows from shape to shape.

    Args:
        lengths: of all rows, (rows,) each; buckets are cut by the first one.
        is_training: bool (rows,). Only training rows count in the cost.
        rows_per_batch: the same for all buckets.
        max_buckets: at most so many; small sets get fewer.
    """
    first = lengths[0]
    multiple = SHAPE_MULTIPLE
    while int(first.max()) > multiple * MAX_LENGTHS:
        multiple *= 2
    # histogram[i]: training rows of i whole multiples; lengths that do not occur are left out.
    in_multiples = round_up(first, multiple) // multiple
    histogram = np.bincount(in_multiples[is_training], minlength=int(in_multiples.max()) + 1)
    occurs = histogram > 0
    occurs[-1] = True  # the longest row may be a held-out one
    occurring = np.flatnonzero(occurs) * multiple
    counts = histogram[occurs]

    mean_length = float(occurring @ counts) / counts.sum()
    bucket_cost = BUCKET_COST_BATCHES * rows_per_batch * mean_length
    best_cost, best_limits = np.inf, occurring[-1:]
    for last_lengths in _cheapest_splits(occurring, counts, min(max_buckets, len(occurring))):
        limits = occurring[last_lengths]
        rows_of_bucket = np.diff(np.cumsum(counts)[last_lengths], prepend=0)
        num_batches = count_batches(rows_of_bucket, limits, rows_per_batch).num_batches
        cost = float(num_batches @ limits) * rows_per_batch + bucket_cost * len(limits)
        if cost < best_cost:
            best_cost, best_limits = cost, limits
    return _shapes(best_limits, lengths, rows_per_batch, form)


def one_shape(
    lengths: Sequence[np.ndarray], rows_per_batch: int, form: BatchForm
) -> tuple[BatchShape, ...]:
    """The one shape that fits every row."""
    if not lengths:
        return (BatchShape(rows_per_batch, (), form),)
    limits = np.array([round_up(int(lengths[0].max()))])
    return _shapes(limits, lengths, rows_per_batch, form)


def limits_of(buckets: Sequence[BatchShape]) -> np.ndarray:
    """The bound of the first length in each bucket, rising, (buckets,); 1 where there is none."""
    return np.array([bucket.lengths[0] if bucket.lengths else 1 for bucket in buckets])


def assign_buckets(first_length: np.ndarray, buckets: Sequence[BatchShape]) -> np.ndarray:
    """The shortest bucket that each row fits, uint16 (rows,)."""
    return np.searchsorted(limits_of(buckets), first_length).astype(np.uint16)


def count_batches(
    rows_of_bucket: np.ndarray, limits: np.ndarray, rows_per_batch: int
) -> EpochCounts:
    """Fills batches so that an epoch has the fewest places.

    The surplus of each bucket is either filled up where it is or carried into the next longer
    bucket; all combinations that can differ are compared.

    Args:
        rows_of_bucket: rows that belong to each bucket, (buckets,).
        limits: length of each bucket's shape, rising, (buckets,).
    """
    # For each surplus that can arrive at a bucket: the cheapest way to get there.
    arrivals: dict[int, tuple[int, tuple[tuple[int, int], ...]]] = {0: (0, ())}
    last = len(limits) - 1
    for bucket, (own, length) in enumerate(
        zip(rows_of_bucket.tolist(), limits.tolist(), strict=True)
    ):
        departures: dict[int, tuple[int, tuple[tuple[int, int], ...]]] = {}
        for surplus, (cost, ways) in arrivals.items():
            whole, rest = divmod(own + surplus, rows_per_batch)
            options = [(whole + (rest > 0), 0)]
            if rest and bucket < last:
                options.append((whole, rest))
            for num_batches, carried in options:
                way = (
                    cost + num_batches * length,
                    (*ways, (own + surplus - carried, num_batches)),
                )
                departures[carried] = min(way, departures.get(carried, way))
        arrivals = departures
    num_rows, num_batches = np.array(arrivals[0][1], dtype=np.int64).T
    return EpochCounts(num_rows, num_batches)


def _cheapest_splits(
    lengths: np.ndarray, counts: np.ndarray, max_parts: int
) -> Iterator[np.ndarray]:
    """For 1 … max_parts parts, the split of sorted lengths with the fewest padded places.

    A dynamic programme: the cheapest split of lengths[:j+1] into k parts ends with a part i … j
    whose rows all have length lengths[j].

    Yields:
        For each number of parts, the position of each part's last length, int64 (parts,).
    """
    before = np.concatenate([[0], np.cumsum(counts)])
    # part_cost[i, j]: places of one part that holds lengths[i … j]
    part_cost = lengths[None, :] * (before[None, 1:] - before[:-1, None]).astype(np.float64)
    part_cost[np.tril_indices(len(lengths), -1)] = np.inf
    cheapest = part_cost[0]
    starts = []
    yield np.array([len(lengths) - 1])
    for _ in range(max_parts - 1):
        with_last_part = part_cost.copy()
        with_last_part[1:] += cheapest[:-1, None]
        with_last_part[0] = np.inf
        starts.append(with_last_part.argmin(axis=0))
        cheapest = with_last_part.min(axis=0)
        ends = [len(lengths) - 1]
        for start in reversed(starts):
            ends.append(int(start[ends[-1]]) - 1)
        yield np.array(ends[::-1])


def _shapes(
    limits: np.ndarray, lengths: Sequence[np.ndarray], rows_per_batch: int, form: BatchForm
) -> tuple[BatchShape, ...]:
    place = np.searchsorted(limits, lengths[0])
    columns = [limits]
    for length in lengths[1:]:
        longest = np.zeros(len(limits), dtype=np.int64)
        np.maximum.at(longest, place, length)
        columns.append(round_up(np.maximum.accumulate(longest)))
    return tuple(
        BatchShape(rows_per_batch, tuple(int(bound) for bound in bounds), form)
        for bounds in zip(*columns, strict=True)
    )
