"""A step's batches come from one bucket wherever that can be, and none is lost by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.plan.plan import Plan
from shared.plan.steps_of_epoch import in_steps
from shared.task import Array, BatchForm

FORM = BatchForm({"x": Array("float32", "length")}, lengths=("length",))


@given(
    buckets=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    per_step=st.integers(2, 6),
    begun=st.integers(0, 5),
    seed=st.integers(0, 9),
)
def test_every_batch_is_there_once_and_few_steps_are_mixed(buckets, per_step, begun, seed):
    begun %= per_step
    order = np.random.default_rng(seed).permutation(len(buckets))
    ordered = in_steps(order, np.array(sorted(buckets)), begun, per_step)
    assert sorted(ordered.tolist()) == list(range(len(buckets)))
    first = -begun % per_step
    whole = [
        {sorted(buckets)[batch] for batch in ordered[start : start + per_step]}
        for start in range(first, len(buckets) - per_step + 1, per_step)
    ]
    num_mixed = sum(len(step) > 1 for step in whole)
    # What is left of four buckets, and what makes room for it, is not more than this.
    assert num_mixed <= 4


def plan(per_step, **settings):
    lengths = np.random.default_rng(3).integers(10, 400, 300)
    zeros = np.zeros(300, int)
    return Plan(
        {"length": lengths}, zeros, zeros, FORM,
        batch_size=4, seed=1, batches_per_step=per_step, **settings,
    )  # fmt: skip


@pytest.mark.parametrize("per_step", [2, 3, 6])
def test_steps_across_several_epochs_are_balanced(per_step):
    made = plan(per_step)
    count = 4 * made.batches_per_epoch // per_step
    shapes = [[made.shape(step * per_step + k) for k in range(per_step)] for step in range(count)]
    alike = sum(len(set(step)) == 1 for step in shapes)
    slowest = sum(max(shape.lengths[0] for shape in step) for step in shapes)
    mean = sum(np.mean([shape.lengths[0] for shape in step]) for step in shapes)
    assert alike >= 0.75 * count and slowest <= 1.05 * mean
    by_chance = [
        [plan(1).shape(s * per_step + k).lengths[0] for k in range(per_step)] for s in range(40)
    ]
    assert np.mean([max(step) / np.mean(step) for step in by_chance]) > 1.15


def test_an_epoch_has_the_same_batches_in_another_order():
    one, grouped = plan(1), plan(4)
    for epoch in range(3):
        numbers = range(epoch * one.batches_per_epoch, (epoch + 1) * one.batches_per_epoch)
        of_one, of_grouped = (
            sorted(tuple(each.batch(n).rows) for n in numbers) for each in (one, grouped)
        )
        assert of_one == of_grouped


def test_a_plan_of_single_batches_is_the_one_of_before():
    assert plan(1).fingerprint() == Plan(
        {"length": np.random.default_rng(3).integers(10, 400, 300)},
        np.zeros(300, int), np.zeros(300, int), FORM, batch_size=4, seed=1,
    ).fingerprint()  # fmt: skip
    assert len({plan(n).fingerprint() for n in (1, 2, 4)}) == 3
