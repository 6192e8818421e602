"""What a task returns is held against what it declares, and told with the method's file and line."""

import dataclasses
import inspect
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from data_worker.batches.batch_filler import BatchFiller
from data_worker.batches.cache import MemoryCache, NoCache
from shared.errors import TaskError
from shared.plan.index import Index, StringColumn
from shared.plan.plan import Plan
from shared.task import Array, DataSide, Indexed

NUM_ROWS = 10
INDEX = Index(
    columns={
        "ids": StringColumn.of(f"e{row}" for row in range(NUM_ROWS)),
        "size": np.arange(3, 3 + NUM_ROWS, dtype=np.int32),
        "group": np.arange(NUM_ROWS, dtype=np.int32) % 2,
        "split": np.zeros(NUM_ROWS, np.uint8),
    },
    tables={},
    facts={"groups": ["even", "odd"]},
    left_out=[],
)


class Counting(DataSide):
    """Example r is r everywhere; its companion's sum goes with it."""

    lengths = ("size",)
    arrays: ClassVar = {
        "values": Array("float32", "size", 2, padding=-1),
        "size": Array("int32", padding=1),
        "other": Array("float32"),
        "name": Array("uint8", 4),
    }
    companion = "group"

    def features(self, raws, shape):
        return [np.tile(raw[:, None], (1, 2)) for raw in raws]

    def row(self, example, features, companion):
        return {
            "values": features,
            "size": len(features),
            "other": companion.sum(),
            "name": np.frombuffer(f"{example.id:<4}".encode(), np.uint8),
        }


def plan_of(task, **settings):
    settings = {"batch_size": 4, "seed": 1, "max_buckets": 1} | settings
    return Plan.from_index(INDEX, type(task).form(), **settings)


def example_of(row):
    return Indexed(INDEX, row, Path(f"/data/e{row}"))


def raw_of(row):
    return np.full(INDEX.size[row], row, np.float32)


def fill(task, batch, cache=None, features=None):
    filler = BatchFiller(task, example_of, cache or NoCache())
    features = features if features is not None else {}
    rows = {*batch.rows.tolist(), *batch.companions.tolist()} - {-1} - features.keys()
    return filler.fill(batch, features, {row: raw_of(row) for row in rows})


def said_of(task):
    """Why a batch of this task can not be made."""
    with pytest.raises(TaskError) as caught:
        fill(task, plan_of(task).batch(0))
    message = str(caught.value)
    assert "\n" not in message and message.endswith(".")
    return message


def line_of(method):
    return f"{Path(__file__).name} line {inspect.getsourcelines(method)[1]} ({method.__name__}): "


def padding_of(shape):
    """A batch of this shape that holds padding alone."""
    return {
        name: np.full(size, shape.form.arrays[name].padding, dtype)
        for name, (dtype, size) in shape.arrays().items()
    }


def test_every_part_is_where_it_belongs_and_the_rest_is_padding():
    task = Counting(None)
    plan = plan_of(task)
    batches = [plan.batch(number) for number in range(plan.batches_per_epoch)]
    assert any((batch.rows == -1).any() for batch in batches)
    for batch in batches:
        arrays = fill(task, batch)
        expected = padding_of(batch.shape)
        expected["weight"][:] = batch.rows != -1
        expected["rows"][:] = batch.rows
        for slot, row in enumerate(batch.rows):
            if row != -1:
                size, other = INDEX.size[row], batch.companions[slot]
                expected["values"][slot, :size] = row
                expected["size"][slot] = size
                expected["other"][slot] = 2.0 * other * INDEX.size[other]
                expected["name"][slot] = list(f"e{row}  ".encode())
        assert {name: array.dtype.name for name, array in arrays.items()} == {
            name: dtype for name, (dtype, _) in batch.shape.arrays().items()
        }
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)


def test_a_batch_is_the_same_from_what_was_kept():
    task, cache = Counting(None), MemoryCache(1 << 20)
    batch = plan_of(task).batch(0)
    first = fill(task, batch, cache)
    known = {row: cache.get(row) for row in batch.rows.tolist() if row != -1}
    assert all(features is not None for features in known.values())
    again = fill(task, batch, cache, known)
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)


def test_features_are_asked_for_once_and_never_for_more_than_the_rows():
    class Watched(Counting):
        def __init__(self):
            super().__init__(None)
            self.asked = []

        def features(self, raws, shape):
            self.asked.append(len(raws))
            return super().features(raws, shape)

    task = Watched()
    batch = plan_of(task).batch(0)
    fill(task, batch)
    assert task.asked[0] == np.count_nonzero(batch.rows != -1)
    assert all(count <= batch.shape.rows for count in task.asked) and len(task.asked) <= 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": None}, "array values of example e0 is object; declared is float32."),
        ({"values": np.zeros(3)}, "array values of example e0 has the shape (3,); declared is (size, 2)."),
        (
            {"values": np.zeros((99, 2))},
            "array values of example e0 has the shape (99, 2); declared is (size, 2), at most "
            "(16, 2) here.",
        ),
        (
            {"values": np.zeros((3, 1))},
            "array values of example e0 has the shape (3, 1); declared is (size, 2), at most "
            "(16, 2) here.",
        ),
        ({"name": np.zeros(3, np.uint8)}, "array name of example e0 has the shape (3,); declared "),
        ({"name": "e0"}, "array name of example e0 is <U2; declared is uint8."),
        ({"size": 2.5}, "array size of example e0 is float64; declared is int32."),
        ({"size": [1]}, "array size of example e0 has the shape (1,); declared is ()."),
        ({"values": [[1, 2], [3]]}, "array values of example e0 is no array: its parts differ in "),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_shape_or_dtype_is_named(change, said):
    class Wrong(Counting):
        def row(self, example, features, companion):
            found = super().row(example, features, companion)
            return found | (change if example.row == 0 else {})

    task = Wrong(None)
    plan = plan_of(task)
    number = next(n for n in range(plan.batches_per_epoch) if 0 in plan.batch(n).rows)
    with pytest.raises(TaskError) as caught:
        fill(task, plan.batch(number))
    assert str(caught.value).startswith(line_of(Wrong.row) + said)


@pytest.mark.parametrize(
    ("added", "removed", "differing"),
    [
        ({}, {"other"}, "other"),
        ({"more": 1}, set(), "more"),
        ({"weight": 1.0}, {"other"}, "other, weight"),
        ({"rows": 3}, set(), "rows"),
        ({3: 1}, set(), "3"),
    ],
)
def test_a_missing_or_an_extra_array_is_named(added, removed, differing):
    class Wrong(Counting):
        def row(self, example, features, companion):
            found = super().row(example, features, companion) | added
            return {name: value for name, value in found.items() if name not in removed}

    said = said_of(Wrong(None))
    assert said.startswith(line_of(Wrong.row) + "it returned the arrays ")
    assert said.endswith(f"; declared are name, other, size, values (differing: {differing}).")


def test_a_row_that_is_no_dictionary_is_named():
    class Wrong(Counting):
        def row(self, example, features, companion):
            return None

    assert said_of(Wrong(None)) == (
        f"{line_of(Wrong.row)}it returned NoneType; expected a dictionary with the arrays name, "
        "other, size, values."
    )


@pytest.mark.parametrize("method", ["features", "companions"])
def test_a_wrong_count_is_named(method):
    class Wrong(Counting):
        def features(self, raws, shape):
            found = super().features(raws, shape)
            return found[1:] if method == "features" else found

        def companions(self, wanted, shape):
            found = super().companions(wanted, shape)
            return [*found, 1] if method == "companions" else found

    count = "3 results for 4" if method == "features" else "5 results for 4"
    assert said_of(Wrong(None)) == (
        f"{line_of(getattr(Wrong, method))}it returned {count} examples. Return one for each, in "
        "the same order."
    )


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda raws: None, "it returned NoneType. Return a list with one entry for each"),
        (lambda raws: (raw for raw in raws), "it returned generator. Return a list"),
        (lambda raws: [None] * len(raws), "the features of an example are NoneType; expected an "),
        (lambda raws: [(raw, raw) for raw in raws], "the features of an example are tuple; expec"),
        (lambda raws: ["a"] * len(raws), "the features of an example are str; expected an array"),
    ],
)
@pytest.mark.parametrize("cache", [NoCache(), MemoryCache(1 << 20)], ids=["off", "memory"])
def test_features_that_are_no_arrays_are_named_kept_or_not(made, said, cache):
    class Wrong(Counting):
        def features(self, raws, shape):
            return made(raws)

    task = Wrong(None)
    with pytest.raises(TaskError) as caught:
        fill(task, plan_of(task).batch(0), cache)
    assert str(caught.value).startswith(line_of(Wrong.features) + said)


def test_a_task_without_lengths_and_companions_needs_neither():
    class Flat(DataSide):
        arrays: ClassVar = {"x": Array("int64", 2)}

        def row(self, example, features, companion):
            assert companion is None
            return {"x": features["pair"]}

        def features(self, raws, shape):
            assert shape.lengths == ()
            return [{"pair": raw[:2]} for raw in raws]

    task = Flat(None)
    filler = BatchFiller(task, example_of, NoCache())
    batch = plan_of(task).batch(0)
    raws = {row: np.array([row, -row, 9]) for row in batch.rows.tolist()}
    np.testing.assert_array_equal(
        filler.fill(batch, {}, raws)["x"], np.stack([batch.rows, -batch.rows], axis=1)
    )


def test_a_row_that_crops_by_its_draw_is_another_each_epoch_and_the_same_in_any_place():
    class Cropping(DataSide):
        arrays: ClassVar = {"x": Array("float32", 2)}

        def row(self, example, features, companion):
            start = int(example.uniform(1)[0] * 1000)
            return {"x": [start, np.random.default_rng(example.draw).random()]}

    task = Cropping(None)
    filler, plan = BatchFiller(task, example_of, NoCache()), plan_of(task, batch_size=NUM_ROWS)

    def made(batch):
        arrays = filler.fill(batch, {}, {row: raw_of(row) for row in range(NUM_ROWS)})
        return dict(zip(arrays["rows"].tolist(), map(bytes, arrays["x"]), strict=True))

    first, second = plan.batch(0), plan.batch(1)
    turned = dataclasses.replace(first, rows=first.rows[::-1], draws=first.draws[::-1])
    assert made(first) == made(first) == made(turned)
    assert all(made(first)[row] != made(second)[row] for row in range(NUM_ROWS))


def test_what_is_kept_for_later_epochs_can_not_be_random():
    class Random(Counting):
        def companions(self, wanted, shape):
            return [each.example.draw for each in wanted]

    assert "asked for its draw outside of row()" in said_of(Random(None))
