"""What task.json keeps of a run's task, and what it refuses to go on with."""

import dataclasses
import json

import pytest

from shared.errors import InputError, TaskError
from shared.run.directory import RunDirectory
from shared.run.task_identity import (
    TaskIdentity,
    check_same_task,
    difference,
    read_identity,
    recipe_of,
    write_identity,
)
from shared.stream import codec, messages
from shared.task import DataSide
from shared.task.registry import Task

SPEECH = Task.of("speech")
MINE = Task("mine.py", "/somewhere/mine.py", "Model", "a" * 64, True, True)


class Side(DataSide):
    version = 3

    def recipe(self):
        return {"numpy": "2.0"}


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.create()
    return run


def begun(run, task):
    write_identity(run, TaskIdentity.of(task, 3, recipe_of(task, Side(None))))
    return run


def refusal(run, task, **flags):
    with pytest.raises(InputError) as caught:
        check_same_task(run, task, **flags)
    return str(caught.value)


def test_what_is_written_is_read_again(run):
    identity = TaskIdentity.of(MINE, 3, recipe_of(MINE, Side(None)))
    write_identity(run, identity)
    assert read_identity(run) == identity
    assert identity.recipe == {
        "task": "mine.py", "version": "3", "task file": "a" * 64, "numpy": "2.0",
    }  # fmt: skip


def test_a_run_of_which_nobody_wrote_it_down_is_one_of_speech(run):
    assert read_identity(run) == TaskIdentity()
    check_same_task(run, SPEECH)
    said = f"{run.path} was begun with --task speech. Give that to go on with it, or choose another"
    assert refusal(run, MINE).startswith(said)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "null", "{}", '{"name": "x"}', "\xff", "[" * 9999,
     '{"name": "x", "model": "", "sha256": "", "version": "many", "recipe": null}',
     '{"name": "x", "model": "", "sha256": "", "version": 1, "recipe": [1]}'],
)  # fmt: skip
def test_a_damaged_note_is_told_and_can_be_written_anew(run, content):
    run.task.write_bytes(content.encode("latin-1"))
    assert "is damaged" in refusal(run, SPEECH)
    check_same_task(run, MINE, accept_edited=True)


def test_the_same_task_goes_on(run):
    check_same_task(begun(run, MINE), MINE)
    check_same_task(run, dataclasses.replace(MINE, file="/elsewhere/mine.py"))


def test_another_task_is_refused_and_the_right_one_named(run):
    said = refusal(begun(run, MINE), SPEECH)
    assert said.startswith(f"{run.path} was begun with --task mine.py. Give that to go on with it")
    assert "--task mine.py. " in refusal(run, dataclasses.replace(MINE, name="other.py"))
    # Nothing makes up for it.
    assert "--task mine.py. " in refusal(run, SPEECH, accept_edited=True)


def test_another_model_of_the_same_file_is_refused(run):
    other = dataclasses.replace(MINE, model_name="Small")
    assert "was begun with --task mine.py. " in refusal(begun(run, MINE), other)
    assert "was begun with --task mine.py:Small. " in refusal(begun(run, other), MINE)


def test_an_edited_file_is_refused_until_it_is_accepted(run):
    edited = dataclasses.replace(MINE, sha256="b" * 64)
    said = refusal(begun(run, MINE), edited)
    assert said == (
        f"mine.py was edited since {run.path} was begun with it. Give --accept-edited-task to go "
        "on with it as it is now, or --fresh to start over."
    )
    check_same_task(run, edited, accept_edited=True)


def test_the_note_names_no_place_that_code_could_come_from(run):
    begun(run, MINE)
    assert "/" not in run.task.read_text() and "somewhere" not in run.task.read_text()
    assert json.loads(run.task.read_text())["name"] == "mine.py"


def test_only_a_file_with_a_data_half_decides_features():
    assert "task file" not in recipe_of(dataclasses.replace(MINE, has_data=False), Side(None))
    assert "task file" in recipe_of(MINE, Side(None))


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ({"numpy": "2.0"}, {"numpy": "2.0"}, ""),
        ({}, {}, ""),
        ({"numpy": "2.0"}, {"numpy": "1.9"}, "numpy: 1.9 there, 2.0 in this run"),
        ({"numpy": "2.0"}, {}, "numpy: nothing there, 2.0 in this run"),
        ({}, {"soxr": "0.5"}, "soxr: 0.5 there, nothing in this run"),
        ({"a": "x" * 99}, {"a": "y"}, f"a: y there, {'x' * 40} in this run"),
    ],
)
def test_what_differs_between_two_recipes_is_named(ours, theirs, said):
    assert difference(ours, theirs) == said


@pytest.mark.parametrize(
    "own",
    [None, [], {"a": 1}, {1: "a"}, {"a": "x" * 201}, {str(n): "a" for n in range(25)}],
    ids=["none", "list", "number", "name", "long", "many"],
)
def test_a_recipe_that_can_not_be_sent_is_refused_with_its_line(own):
    class Other(Side):
        def recipe(self):
            return own

    with pytest.raises(
        TaskError, match=r"^test_task_identity\.py line \d+ \(recipe\): expected a di"
    ):
        recipe_of(MINE, Other(None))


def test_the_longest_recipe_of_a_task_fits_a_message():
    class Longest(Side):
        def recipe(self):
            return {f"{n:0200}": "x" * 200 for n in range(24)}

    recipe = recipe_of(MINE, Longest(None))
    hello = messages.Hello("w", 1, "i", "p", "cpu", "2", 1, recipe)
    frames = codec.encode(messages.Envelope("run", "s", 1, hello))
    assert codec.decode(frames).message == hello
