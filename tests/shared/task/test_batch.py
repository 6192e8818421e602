"""What a task declares of its batches, and the exact shapes that follow from it."""

import numpy as np
import pytest

from shared.stream import codec
from shared.task import Array, BatchForm, BatchShape
from shared.task import batch as declared

PICTURES = {
    "pixels": Array("uint8", "height", "width", 3),
    "height": Array("int32", padding=1),
    "code": Array("float32", 16, padding=-1),
}
FORM = BatchForm(PICTURES, ("height", "width"))


def test_a_shape_has_the_arrays_of_the_task_and_those_of_the_engine():
    shape = BatchShape(8, (40, 60), FORM)
    assert shape.arrays() == {
        "pixels": ("uint8", (8, 40, 60, 3)),
        "height": ("int32", (8,)),
        "code": ("float32", (8, 16)),
        "weight": ("float32", (8,)),
        "rows": ("int32", (8,)),
    }
    assert (shape["height"], shape["width"]) == (40, 60)
    arrays = [np.zeros(size, dtype) for dtype, size in shape.arrays().values()]
    assert shape.nbytes == sum(array.nbytes for array in arrays)


def test_a_length_that_there_is_not_has_no_bound():
    with pytest.raises(KeyError, match="no length 'depth', only height, width"):
        BatchShape(8, (40, 60), FORM)["depth"]


def test_the_signature_knows_what_differs_between_batches():
    assert FORM.signature() == {
        "pixels": ("uint8", (None, None, None, 3)),
        "height": ("int32", (None,)),
        "code": ("float32", (None, 16)),
        "weight": ("float32", (None,)),
        "rows": ("int32", (None,)),
    }


def test_shapes_are_equal_by_value_and_can_be_looked_up():
    assert BatchShape(8, (40, 60), FORM) == BatchShape(8, (40, 60), FORM)
    assert len({BatchShape(8, (40, 60), FORM), BatchShape(8, (40, 60), FORM)}) == 1
    others = [BatchShape(8, (40, 61), FORM), BatchShape(7, (40, 60), FORM)]
    others.append(BatchShape(8, (40, 60), BatchForm(PICTURES, ("height", "width"))))
    assert all(other != BatchShape(8, (40, 60), FORM) for other in others)


def test_a_form_without_lengths_has_one_shape():
    shape = BatchShape(4, (), BatchForm({"code": Array("float32", 16)}))
    assert shape.arrays()["code"] == ("float32", (4, 16))
    assert not shape.form.has_companions


@pytest.mark.parametrize("given", ["float32", np.float32, "<f4", np.dtype("f4")])
def test_a_dtype_has_one_name_however_it_is_given(given):
    assert Array(given, 3) == Array("float32", 3)


def test_what_can_be_declared_is_what_the_wire_carries():
    assert {np.dtype(name) for name in declared.DTYPES} == set(codec.DTYPES.values())
    assert declared.MAX_ARRAYS == codec.MAX_ARRAYS
    assert declared.MAX_DIMENSIONS == codec.MAX_DIMENSIONS
    assert declared.MAX_NAME == codec.MAX_NAME


def test_a_sound_form_has_no_problem():
    assert FORM.problem() == ""


@pytest.mark.parametrize(
    ("arrays", "lengths", "said"),
    [
        ({}, (), "arrays is empty"),
        ({f"a{n}": Array("int32") for n in range(31)}, (), "there are 31 arrays; at most 30"),
        ({"a": Array("float64", 3)}, (), "array 'a' is float64; expected one of float32"),
        ({"a": Array("bool")}, (), "array 'a' is bool"),
        ({"a": Array("O")}, (), "array 'a' is object"),
        ({"a": np.zeros(3)}, (), "array 'a' is ndarray; expected shared.task.Array"),
        ({"a": Array("int32", "frames")}, (), "array 'a' is as long as 'frames', which is none"),
        ({"a": Array("int32", 0)}, (), "array 'a' has the dimension 0"),
        ({"a": Array("int32", 2.5)}, (), "array 'a' has the dimension 2.5"),
        ({"a": Array("int32", 2, 2, 2, 2)}, (), "array 'a' has 4 dimensions; at most 3"),
        ({"a": Array("uint8", padding=-1)}, (), "array 'a' has the padding -1"),
        ({"a" * 65: Array("uint8")}, (), "needs a name of 1 to 64 characters"),
        ({1: Array("uint8")}, (), "array 1 needs a name"),
        ({"a": Array("uint8", "n")}, "n", "lengths is 'n'; expected a tuple"),
        ({"a": Array("uint8", "n")}, ("n", "n"), "expected a tuple of different names"),
    ],
)
def test_what_can_not_be_is_named(arrays, lengths, said):
    assert said in BatchForm(arrays, lengths).problem()
