"""Who has which batch: every one has one owner, whatever the number of replicas and validations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_worker.stream.share import Share
from shared.plan.stream_layout import LAST_VALIDATION, StreamLayout


def batches_of(share, first, end):
    found, n = [], share.first(first)
    while n < end:
        found.append(n)
        n = share.after(n)
    return found


@given(
    num_replicas=st.integers(1, 4),
    rounds=st.integers(1, 3),
    every=st.integers(0, 4),
    num_validation=st.integers(0, 3),
    steps=st.integers(0, 9),
    has_end=st.booleans(),
    begun=st.integers(0, 9),
    is_validated=st.booleans(),
)
def test_every_batch_from_a_step_on_has_one_owner(
    num_replicas, rounds, every, num_validation, steps, has_end, begun, is_validated
):
    grad_accum = num_replicas * rounds
    total = steps * grad_accum if has_end else None
    layout = StreamLayout(every * grad_accum, num_validation, total)
    end = layout.num_stream_batches if has_end else 200
    first = layout.index_after(min(begun, steps) * grad_accum, is_validated)
    owners: dict[int, int] = {}
    for rank in range(num_replicas):
        for n in batches_of(Share(layout, rank, num_replicas), first, end):
            assert n not in owners
            owners[n] = rank
    assert sorted(owners) == list(range(first, end))
    for n, rank in owners.items():
        place = layout.place(n)
        assert rank == (place.number % num_replicas if place.kind == "train" else 0)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_stream_that_is_over_has_no_further_batch(rank):
    layout = StreamLayout(0, 2, 4)
    assert Share(layout, rank, 2).first(layout.num_stream_batches) == layout.num_stream_batches


def test_the_last_validation_by_the_clock_is_the_first_replicas_alone():
    share = Share(StreamLayout(4, 3, None), 0, 2)
    assert share.after(LAST_VALIDATION) == LAST_VALIDATION + 1
