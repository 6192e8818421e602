"""One model process at a time may write what a run keeps."""

import json

import pytest

from shared.run.directory import RunDirectory
from shared.run.writer import EPOCH_VARIABLE, SupersededError, Writer, next_epoch


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.delenv(EPOCH_VARIABLE, raising=False)
    directory = RunDirectory(tmp_path / "run")
    directory.create()
    return directory


def test_who_began_last_may_write_and_who_was_before_may_not(run):
    first = Writer(run)
    first.check()
    second = Writer(run)
    second.check()
    with pytest.raises(SupersededError, match=r"its epoch is 2, this one's 1\)\. This one ends"):
        first.check()


def test_one_that_was_held_up_at_its_start_does_not_take_the_place_of_the_next(run, monkeypatch):
    monkeypatch.setenv(EPOCH_VARIABLE, str(next_epoch(run)))
    late = str(next_epoch(run))
    Writer(run)
    monkeypatch.setenv(EPOCH_VARIABLE, late)
    with pytest.raises(SupersededError):
        Writer(run)


def test_a_look_of_a_moment_ago_is_trusted_where_that_is_enough(run):
    first = Writer(run)
    first.check(at_once=False)
    Writer(run)
    first.check(at_once=False)
    with pytest.raises(SupersededError):
        first.check()


@pytest.mark.parametrize("content", ["", "{", '{"epoch": null}', "[1]"])
def test_a_damaged_file_keeps_nobody_from_going_on(run, content):
    run.writer.write_text(content)
    writer = Writer(run)
    writer.check()
    assert json.loads(run.writer.read_text())["epoch"] == 1 and next_epoch(run) == 2
