"""A batch is let in only with exactly the arrays that the plan says."""

import numpy as np
import pytest

from model_worker.stream.arrival_check import wrong_arrays
from shared.plan.plan import Plan
from shared.speech.batch import FORM
from shared.stream.array_block import ArrayBlock
from shared.stream.messages import BatchReady

FRAMES = np.arange(20, 44)
PLAN = Plan(
    {"num_frames": FRAMES, "num_symbols": FRAMES // 4}, np.zeros(24, int), np.zeros(24, int),
    FORM, batch_size=4, seed=1, max_buckets=2, total_train_batches=40,
)  # fmt: skip


def batch(number, **changes):
    """The planned batch, with arrays changed or (None) left out."""
    arrays = {**ArrayBlock(PLAN.shape(number).arrays()), **changes}
    return BatchReady(number, 0, {}, 0.5, {n: a for n, a in arrays.items() if a is not None})


@pytest.mark.parametrize("number", range(12))
def test_what_was_planned_is_let_in(number):
    assert wrong_arrays(batch(number), PLAN) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"weight": None},
        {"another": np.zeros(3, np.float32)},
        {"weight": np.zeros(4, np.float64)},
        {"weight": np.zeros(5, np.float32)},
        {"weight": np.zeros((4, 1), np.float32)},
    ],
    ids=["one is missing", "one too many", "dtype", "rows", "dimensions"],
)
def test_anything_else_is_not(changes):
    assert wrong_arrays(batch(3, **changes), PLAN) == (
        "batch 3 does not have the arrays that the plan says."
    )


def test_the_shape_of_another_bucket_is_not():
    shapes = {PLAN.shape(n): n for n in range(12)}
    assert len(shapes) == 2
    one, other = shapes.values()
    assert wrong_arrays(BatchReady(one, 0, {}, 0.5, batch(other).arrays), PLAN)
