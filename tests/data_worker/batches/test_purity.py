"""What is computed twice is compared bit for bit, whatever it is made of."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from data_worker.batches.purity import PurityLook, same


@dataclasses.dataclass
class Clip:
    samples: Any
    rate: int


def numbers(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    "make",
    [
        lambda: numbers(1, np.nan),
        lambda: {"a": numbers(1), "b": numbers(2)},
        lambda: Clip(numbers(1, 2), 7),
        lambda: (numbers(1), "text", None, 3),
        lambda: np.array(["text", None], object),
        lambda: float("nan"),
        lambda: np.array("text"),
        lambda: b"bytes",
    ],
)
def test_what_is_equal_is_the_same(make):
    assert same(make(), make())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (numbers(0.0), numbers(-0.0)),
        (numbers(1), numbers(1).astype(np.float64)),
        (numbers(1), numbers(1, 1)),
        ({"a": numbers(1)}, {"b": numbers(1)}),
        ({"a": numbers(1)}, {"a": numbers(2)}),
        (Clip(numbers(1), 7), Clip(numbers(2), 7)),
        ([numbers(1)], [numbers(1), numbers(1)]),
        ([1], (1,)),
        (np.array(["a"], object), np.array(["b"], object)),
        ("a", "b"),
    ],
)
def test_what_differs_in_a_bit_is_not(one, other):
    assert not same(one, other)


def test_the_first_features_alone_are_made_again_in_another_order():
    asked, said = [], []

    def features(raws, shape):
        asked.append(raws)
        return [raw * 2 for raw in raws]

    look = PurityLook(SimpleNamespace(features=features), said.append)
    examples = [SimpleNamespace(id="a"), SimpleNamespace(id="b")]
    look.look(examples, [1, 2], None, [2, 4])
    look.look(examples, [3, 4], None, [0, 0])
    assert asked == [[2, 1]] and said == []


def test_the_example_that_comes_out_different_is_named():
    said = []
    task = SimpleNamespace(features=lambda raws, shape: [len(raws), 7])
    look = PurityLook(task, said.append)
    examples = [SimpleNamespace(id="a"), SimpleNamespace(id="b")]
    look.look(examples, [1, 2], None, [7, 5])
    (line,) = said
    assert line.startswith("⚠️  test_purity.py line") and "result of example b is another" in line
