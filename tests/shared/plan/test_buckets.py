"""Bucket shapes fit every row and waste little."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.plan.buckets import (
    _cheapest_splits,
    assign_buckets,
    choose_buckets,
    count_batches,
    one_shape,
)
from shared.speech.batch import FORM
from shared.task import BatchShape

lengths = st.lists(
    st.tuples(st.integers(1, 1300), st.integers(1, 300), st.booleans()), min_size=1, max_size=120
)


def columns(rows):
    num_frames, num_symbols, is_training = (np.array(column) for column in zip(*rows, strict=True))
    is_training[0] = True
    return num_frames, num_symbols, is_training


@settings(deadline=None)
@given(rows=lengths, rows_per_batch=st.integers(1, 40), max_buckets=st.integers(1, 12))
def test_every_row_fits_its_bucket_and_all_longer_ones(rows, rows_per_batch, max_buckets):
    num_frames, num_symbols, is_training = columns(rows)
    buckets = choose_buckets(
        (num_frames, num_symbols), is_training, rows_per_batch, max_buckets, FORM
    )
    assert 1 <= len(buckets) <= max_buckets
    for shorter, longer in itertools.pairwise(buckets):
        assert (
            shorter["num_frames"] < longer["num_frames"]
            and shorter["num_symbols"] <= longer["num_symbols"]
        )
    for bucket in buckets:
        assert bucket.rows == rows_per_batch
        assert bucket["num_frames"] % 8 == 0 and bucket["num_symbols"] % 8 == 0
    for row, bucket in enumerate(assign_buckets(num_frames, buckets)):
        assert num_frames[row] <= buckets[bucket]["num_frames"]
        assert num_symbols[row] <= buckets[bucket]["num_symbols"]
        assert bucket == 0 or num_frames[row] > buckets[bucket - 1]["num_frames"]


@settings(deadline=None)
@given(
    rows_of_bucket=st.lists(st.integers(0, 50), min_size=1, max_size=5),
    rows_per_batch=st.integers(1, 16),
    data=st.data(),
)
def test_counting_finds_the_cheapest_way_to_fill_batches(rows_of_bucket, rows_per_batch, data):
    frames = sorted(
        data.draw(
            st.sets(
                st.integers(1, 900),
                min_size=len(rows_of_bucket),
                max_size=len(rows_of_bucket),
            )
        )
    )
    counts = count_batches(np.array(rows_of_bucket), np.array(frames), rows_per_batch)
    assert counts.num_rows.sum() == sum(rows_of_bucket)
    assert np.all(counts.num_rows <= counts.num_batches * rows_per_batch)
    # A bucket gives rows to longer ones only.
    assert np.all(np.cumsum(counts.num_rows) <= np.cumsum(rows_of_bucket))

    def cost_of(carries):
        cost = surplus = 0
        for own, length, carry in zip(rows_of_bucket, frames, (*carries, False), strict=True):
            whole, rest = divmod(own + surplus, rows_per_batch)
            surplus = rest if carry else 0
            cost += (whole + (rest > 0 and not carry)) * length
        return cost

    cheapest = min(map(cost_of, itertools.product([False, True], repeat=len(frames) - 1)))
    assert int(counts.num_batches @ np.array(frames)) == cheapest


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.integers(1, 160), min_size=1, max_size=60), parts=st.integers(1, 4))
def test_the_split_is_as_good_as_the_best_of_all_splits(rows, parts):
    values, counts = np.unique(-(-np.array(rows) // 8) * 8, return_counts=True)
    parts = min(parts, len(values))

    def padded(ends):
        members = np.diff(np.cumsum(counts)[list(ends)], prepend=0)
        return int(members @ values[list(ends)])

    inner = itertools.combinations(range(len(values) - 1), parts - 1)
    best = min(padded((*ends, len(values) - 1)) for ends in inner)
    *_, found = _cheapest_splits(values, counts, parts)
    assert len(found) == parts
    assert padded(found) == best


def test_a_small_set_gets_one_bucket_and_a_large_one_several():
    generator = np.random.default_rng(5)
    for num_rows, expected in ((10, 1), (64, 1), (13_100, 8)):
        num_frames = generator.integers(95, 870, num_rows)
        buckets = choose_buckets(
            (num_frames, num_frames // 6 + 1), np.ones(num_rows, bool), min(32, num_rows), 8, FORM
        )
        assert len(buckets) == expected


def test_a_few_long_clips_do_not_stretch_the_batches_of_all_others():
    num_frames = np.array([170] * 640 + [1290] * 10)
    buckets = choose_buckets((num_frames, num_frames // 6), np.ones(650, bool), 16, 8, FORM)
    assert [bucket["num_frames"] for bucket in buckets] == [176, 1296]


def test_a_held_out_clip_longer_than_all_others_has_a_shape():
    num_frames = np.array([100] * 500 + [1000])
    is_training = num_frames < 1000
    buckets = choose_buckets((num_frames, num_frames // 5), is_training, 8, 4, FORM)
    assert buckets[-1]["num_frames"] == 1000 and buckets[-1]["num_symbols"] == 200
    assert buckets[0]["num_frames"] == 104


def test_hour_long_clips_do_not_slow_the_search_down():
    num_frames = np.random.default_rng(0).integers(1, 310_000, 5_000)
    buckets = choose_buckets((num_frames, num_frames // 6 + 1), np.ones(5_000, bool), 4, 8, FORM)
    assert buckets[-1]["num_frames"] >= num_frames.max()


def test_one_shape_fits_all():
    shapes = one_shape((np.array([3, 870]), np.array([150, 9])), 32, FORM)
    assert shapes == (BatchShape(32, (872, 152), FORM),)


def test_bytes_are_those_of_the_arrays():
    shape = BatchShape(3, (40, 16), FORM)
    arrays = {name: np.zeros(size, dtype) for name, (dtype, size) in shape.arrays().items()}
    assert arrays["mel"].shape == (3, 40, 80)
    assert arrays["reference_mel"].shape == (3, 192, 80)
    assert shape.nbytes == sum(array.nbytes for array in arrays.values())


@pytest.mark.parametrize("batch_size", [16, 32, 48])
@pytest.mark.parametrize("seed", range(3))
def test_padding_is_below_a_tenth_on_lengths_like_those_of_ljspeech(batch_size, seed):
    # 1.1 to 10.1 s, mean 6.57 s, deviation 2.2 s, more long clips than short ones.
    seconds = 1.1 + 9.0 * np.random.default_rng(seed).beta(1.816, 1.172, 13_100)
    assert abs(seconds.mean() - 6.57) < 0.05 and abs(seconds.std() - 2.2) < 0.05
    num_frames = (seconds * 22_050 / 256).astype(np.int32)
    buckets = choose_buckets(
        (num_frames, num_frames // 6 + 1), np.ones(13_100, bool), batch_size, 8, FORM
    )
    frames = np.array([bucket["num_frames"] for bucket in buckets])
    rows_of_bucket = np.bincount(assign_buckets(num_frames, buckets))
    num_batches = count_batches(rows_of_bucket, frames, batch_size).num_batches
    assert 1 - num_frames.sum() / (num_batches @ frames * batch_size) <= 0.10
