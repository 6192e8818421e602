"""Choosing the fixed shapes of batches: length buckets that waste little on padding."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from shared.speech.mel import MEL_BINS

REFERENCE_FRAMES = 192

# Shapes are rounded up to this: kind to GPU tiles, and it keeps the search below small.
SHAPE_MULTIPLE = 8
# A bucket must save more frames per epoch than this many average batches hold. Below that it costs
# a traced graph, and rows that always meet the same few others, for nothing.
BUCKET_COST_BATCHES = 1.0
# The search takes time with the square of the number of different lengths.
MAX_LENGTHS = 1024


@dataclass(frozen=True)
class BucketShape:
    """The shape of every batch of one bucket: rows per batch, symbols and frames per row."""

    rows: int
    symbols: int
    frames: int

    def arrays(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name, dtype and shape of each array of such a batch, in the order they are sent."""
        rows, symbols, frames = self.rows, self.symbols, self.frames
        return {
            "symbols": ("int32", (rows, symbols)),
            "symbol_lengths": ("int32", (rows,)),
            "mel": ("float32", (rows, frames, MEL_BINS)),
            "mel_lengths": ("int32", (rows,)),
            "pitch": ("float32", (rows, frames)),
            "energy": ("float32", (rows, frames)),
            "reference_mel": ("float32", (rows, REFERENCE_FRAMES, MEL_BINS)),
            "speaker": ("int32", (rows,)),
            "weight": ("float32", (rows,)),
            "rows": ("int32", (rows,)),
        }

    @cached_property
    def nbytes(self) -> int:
        """Exact bytes of the arrays of one batch."""
        total = 0
        for dtype, shape in self.arrays().values():
            size = np.dtype(dtype).itemsize
            for length in shape:
                size *= length
            total += size
        return total


class EpochCounts(NamedTuple):
    """How the rows of an epoch fill batches; all int64 (buckets,).

    num_rows: rows that travel in batches of the bucket's shape. A bucket's surplus over whole
        batches may travel in the next longer one, where it costs fewer frames than a filled-up
        batch.
    num_batches: batches of the bucket's shape.
    """

    num_rows: np.ndarray
    num_batches: np.ndarray


def round_up(length, multiple: int = SHAPE_MULTIPLE):
    return -(-length // multiple) * multiple


def choose_buckets(
    num_frames: np.ndarray,
    num_symbols: np.ndarray,
    is_training: np.ndarray,
    rows_per_batch: int,
    max_buckets: int,
) -> tuple[BucketShape, ...]:
    """Chooses the shapes that cost an epoch the fewest frames, padding and fillers counted.

    Every row of either split fits the shape of its bucket and those of all later ones: frames and
    symbols both grow from shape to shape.

    Args:
        num_frames, num_symbols: lengths of all rows, (rows,).
        is_training: bool (rows,). Only training rows count in the cost.
        rows_per_batch: the same for all buckets.
        max_buckets: at most so many; small sets get fewer.
    """
    multiple = SHAPE_MULTIPLE
    while int(num_frames.max()) > multiple * MAX_LENGTHS:
        multiple *= 2
    # histogram[i]: training rows of i whole multiples; lengths that do not occur are left out.
    in_multiples = round_up(num_frames, multiple) // multiple
    histogram = np.bincount(in_multiples[is_training], minlength=int(in_multiples.max()) + 1)
    occurs = histogram > 0
    occurs[-1] = True  # the longest row may be a held-out one
    lengths = np.flatnonzero(occurs) * multiple
    counts = histogram[occurs]

    mean_frames = float(lengths @ counts) / counts.sum()
    bucket_cost = BUCKET_COST_BATCHES * rows_per_batch * mean_frames
    best_cost, best_frames = np.inf, None
    for last_lengths in _cheapest_splits(lengths, counts, min(max_buckets, len(lengths))):
        frames = lengths[last_lengths]
        rows_of_bucket = np.diff(np.cumsum(counts)[last_lengths], prepend=0)
        num_batches = count_batches(rows_of_bucket, frames, rows_per_batch).num_batches
        cost = float(num_batches @ frames) * rows_per_batch + bucket_cost * len(frames)
        if cost < best_cost:
            best_cost, best_frames = cost, frames
    return _shapes(best_frames, num_frames, num_symbols, rows_per_batch)


def one_shape(
    num_frames: np.ndarray, num_symbols: np.ndarray, rows_per_batch: int
) -> tuple[BucketShape, ...]:
    """The one shape that fits every row."""
    frames = np.array([round_up(int(num_frames.max()))])
    return _shapes(frames, num_frames, num_symbols, rows_per_batch)


def assign_buckets(num_frames: np.ndarray, buckets: tuple[BucketShape, ...]) -> np.ndarray:
    """The shortest bucket that each row fits, uint16 (rows,)."""
    limits = np.array([bucket.frames for bucket in buckets])
    return np.searchsorted(limits, num_frames).astype(np.uint16)


def count_batches(
    rows_of_bucket: np.ndarray, frames: np.ndarray, rows_per_batch: int
) -> EpochCounts:
    """Fills batches so that an epoch has the fewest frames.

    The surplus of each bucket is either filled up where it is or carried into the next longer
    bucket; all combinations that can differ are compared.

    Args:
        rows_of_bucket: rows that belong to each bucket, (buckets,).
        frames: frames of each bucket's shape, rising, (buckets,).
    """
    # For each surplus that can arrive at a bucket: the cheapest way to get there.
    arrivals = {0: (0, ())}
    last = len(frames) - 1
    for bucket, (own, length) in enumerate(
        zip(rows_of_bucket.tolist(), frames.tolist(), strict=True)
    ):
        departures = {}
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


def _cheapest_splits(lengths: np.ndarray, counts: np.ndarray, max_parts: int):
    """For 1 … max_parts parts, the split of sorted lengths with the fewest padded frames.

    A dynamic programme: the cheapest split of lengths[:j+1] into k parts ends with a part i … j
    whose rows all have lengths[j] frames.

    Yields:
        For each number of parts, the position of each part's last length, int64 (parts,).
    """
    before = np.concatenate([[0], np.cumsum(counts)])
    # part_cost[i, j]: frames of one part that holds lengths[i … j]
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
    frames: np.ndarray, num_frames: np.ndarray, num_symbols: np.ndarray, rows_per_batch: int
) -> tuple[BucketShape, ...]:
    symbols = np.zeros(len(frames), dtype=np.int64)
    np.maximum.at(symbols, np.searchsorted(frames, num_frames), num_symbols)
    symbols = round_up(np.maximum.accumulate(symbols))
    return tuple(
        BucketShape(rows_per_batch, int(s), int(f)) for s, f in zip(symbols, frames, strict=True)
    )
