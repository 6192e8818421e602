"""A user's file is run as it was when the run began, and its errors are told in its own lines."""

import hashlib
import sys
import textwrap

import pytest

from shared.errors import ConfigError, TaskError
from shared.task.users_file import line_of, load_users_file, users_words


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(content, name="my_task.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(content), encoding="utf-8")
        return str(path), hashlib.sha256(path.read_bytes()).hexdigest()

    return write


def failure_of(function, *arguments):
    """The error that a user's function ends in, as a worker catches it."""
    try:
        function(*arguments)
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


def test_a_file_is_run_once(write):
    place = write("import itertools\nCOUNT = itertools.count()\nX = 3\n")
    module = load_users_file(*place)
    next(module.COUNT)
    assert load_users_file(*place) is module and module.X == 3
    assert next(load_users_file(*place).COUNT) == 1


def test_modules_beside_it_can_be_imported(write):
    write("VALUE = 41\n", "beside_my_task_for_a_test.py")
    module = load_users_file(*write("import beside_my_task_for_a_test as b\nX = b.VALUE + 1\n"))
    assert module.X == 42


def test_a_module_beside_it_never_hides_one_of_the_program(write):
    write("raise SystemExit(9)\n", "numpy.py")
    write("raise SystemExit(9)\n", "shared.py")
    module = load_users_file(*write("import numpy, shared.task\nX = numpy.ones(3).sum()\n"))
    assert module.X == 3


def test_an_edited_file_is_refused_with_the_remedy(write):
    file, _ = write("X = 1  # as it was\n")
    _, before = file, hashlib.sha256(b"something else").hexdigest()
    with pytest.raises(TaskError, match=r"^my_task\.py has been edited.*--accept-edited-task"):
        load_users_file(file, before)


def test_a_file_that_has_gone_is_refused(tmp_path):
    with pytest.raises(TaskError, match=r"gone\.py: can't be read \(No such file"):
        load_users_file(str(tmp_path / "gone.py"), "0" * 64)


def test_a_file_whose_own_code_fails_is_told_with_its_line_and_can_be_tried_again(write):
    place = write("import os\n\nX = os.nothing\n")
    for _ in range(2):
        with pytest.raises(TaskError) as caught:
            load_users_file(*place)
        assert str(caught.value) == (
            "my_task.py line 3: AttributeError: module 'os' has no attribute 'nothing' at "
            "'X = os.nothing'."
        )


def test_an_import_that_is_not_there_is_told_with_its_line(write):
    with pytest.raises(TaskError, match=r"^my_task\.py line 1: ModuleNotFoundError: No module "):
        load_users_file(*write("import there_is_no_such_thing\n"))


def test_an_error_of_ours_that_it_meets_stays_what_it_is(write):
    place = write("from shared.errors import ConfigError\nraise ConfigError('a flag is wrong.')\n")
    with pytest.raises(ConfigError, match=r"^a flag is wrong\.$"):
        load_users_file(*place)


METHODS = """
    def helper(value):
        return value["missing"]

    class Data:
        def read(self, example):
            return helper({})

        def row(self, example):
            raise ValueError("first line\\nsecond line")

        def features(self):
            assert False

        def own(self):
            return 1 / 0
"""


def test_an_error_in_words_names_line_cause_and_what_was_asked(write):
    side = load_users_file(*write(METHODS)).Data()
    assert users_words(failure_of(side.read, None)) == (
        "my_task.py line 3 (in helper): KeyError: 'missing' at 'return value[\"missing\"]'. "
        "The engine was asking for an example from its file."
    )
    assert users_words(failure_of(side.row, None)) == (
        "my_task.py line 10 (in row): ValueError: first line at "
        "'raise ValueError(\"first line\\nsecond line\")'. "
        "The engine was asking for one example's part of a batch."
    )
    assert users_words(failure_of(side.features)) == (
        "my_task.py line 13 (in features): AssertionError at 'assert False'. "
        "The engine was asking for the features of a batch."
    )
    assert users_words(failure_of(side.own)) == (
        "my_task.py line 16 (in own): ZeroDivisionError: division by zero at 'return 1 / 0'."
    )


def test_an_error_that_is_not_the_user_s_has_no_words(write):
    load_users_file(*write("X = 2\n"))
    assert users_words(failure_of(lambda: 1 / 0)) is None
    assert users_words(failure_of(int, "x")) is None


def test_a_long_message_is_cut(write):
    module = load_users_file(*write("def fail():\n    raise ValueError('x' * 5000)\n"))
    assert len(users_words(failure_of(module.fail))) < 500


def test_an_operation_of_a_graph_is_told_where_it_was_written(write):
    tf = pytest.importorskip("tensorflow")
    module = load_users_file(*write("""
        import tensorflow as tf

        @tf.function
        def features(x):
            y = tf.reshape(x, [-1])
            return tf.debugging.check_numerics(tf.math.log(y), "a logarithm")
    """))  # fmt: skip
    words = users_words(failure_of(module.features, tf.constant([[-1.0]])))
    assert words is not None
    assert words.startswith("my_task.py line 7 (in features): InvalidArgumentError: ")
    assert "a logarithm" in words and "\n" not in words


def test_the_place_of_a_method_is_its_file_and_line(write):
    side = load_users_file(*write(METHODS)).Data()
    assert line_of(side.read) == "my_task.py line 6 (read)"
    assert line_of(print) == "print"
