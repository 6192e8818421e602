"""An example comes from its file, or a reason why it can't be had and whether that may pass."""

import errno
import os
import textwrap
from pathlib import Path

import numpy as np
import pytest
import soundfile

from data_worker.batches import reading
from data_worker.batches.reading import TRANSIENT_ERRNOS, fetch, make_loader, unreadable
from data_worker.speech.task import SpeechData
from shared.config.settings import Config
from shared.errors import ReadError, TaskError
from shared.plan.index import Index
from shared.task import DataSide, Indexed
from shared.task.registry import Task

INDEX = Index({}, {}, {}, [])


class Whole(DataSide):
    """The file's content, or what was asked for in its place."""

    def __init__(self, error=None):
        super().__init__(None)
        self.error = error

    def read(self, example):
        if self.error:
            raise self.error
        return example.path.read_bytes()


def loader(task, path, convicted=()):
    return make_loader(task, lambda row: Indexed(INDEX, row, Path(path)), dict(convicted))


def failure_of(task, path, **settings):
    with pytest.raises(ReadError) as caught:
        loader(task, path, **settings)(0, lambda: None)
    assert str(path) in str(caught.value)
    return caught.value


def test_what_the_task_reads_is_what_comes(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    assert loader(Whole(), tmp_path / "a")(0, lambda: None) == b"content"


@pytest.mark.parametrize(("num_bytes", "num_pieces"), [(0, 0), (1, 1), (1 << 16, 1), (441_044, 7)])
def test_every_piece_that_storage_gives_is_told_of_and_then_only_decoding_is_left(
    tmp_path, num_bytes, num_pieces
):
    told = []
    (tmp_path / "a").write_bytes(bytes(num_bytes))

    class Decoding(Whole):
        def read(self, example):
            told.append("decoding")
            return super().read(example)

    loader(Decoding(), tmp_path / "a")(0, lambda: told.append("piece"))
    assert told == [*["piece"] * num_pieces, "decoding"]


def test_a_missing_file_is_worth_another_try_and_a_folder_is_not(tmp_path):
    gone = failure_of(Whole(), tmp_path / "gone")
    assert gone.transient and "can't be read (No such file or directory). Check the disk" in str(
        gone
    )
    assert not failure_of(Whole(), tmp_path).transient


@pytest.mark.parametrize("kind", ["pipe", "folder", "gone", "nul"])
def test_what_can_not_be_fetched_is_left_to_whoever_reads_it(tmp_path, kind):
    path = tmp_path / "a"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "nul":
        path = tmp_path / "a\0b"
    told, before = [], len(os.listdir("/proc/self/fd"))
    fetch(path, lambda: told.append(1))
    assert told == [] and len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("number", "transient"),
    [(errno.EIO, True), (errno.ETIMEDOUT, True), (errno.ESTALE, True), (errno.EACCES, False)],
)
def test_only_passing_troubles_are_transient(tmp_path, number, transient):
    (tmp_path / "a").touch()
    error = failure_of(Whole(OSError(number, os.strerror(number))), tmp_path / "a")
    assert error.transient is transient and os.strerror(number) in str(error)
    assert (number in TRANSIENT_ERRNOS) is transient


def test_an_error_without_a_number_is_told_too():
    assert "can't be read (asleep)" in str(unreadable(Path("a"), OSError("asleep")))


def test_storage_that_fails_while_it_is_fetched_fails_for_whoever_reads(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(bytes(10))

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(reading.os, "pread", fail)
    assert loader(Whole(), tmp_path / "a")(0, lambda: None) == bytes(10)


def test_what_the_task_says_itself_stays_as_it_is(tmp_path):
    (tmp_path / "a").touch()
    for error in (ReadError("it is asleep", transient=True), TaskError("no"), MemoryError()):
        with pytest.raises(type(error)) as caught:
            loader(Whole(error), tmp_path / "a")(0, lambda: None)
        assert caught.value is error


def test_any_other_error_of_a_task_costs_one_example(tmp_path):
    (tmp_path / "a").touch()
    error = failure_of(Whole(ValueError("it is a picture of a cat")), tmp_path / "a")
    assert not error.transient
    assert str(error).endswith("a: can't be read: ValueError: it is a picture of a cat")


def test_an_error_in_a_user_s_file_is_told_in_its_own_line(tmp_path):
    (tmp_path / "a").touch()
    (tmp_path / "mine.py").write_text(
        textwrap.dedent("""
        from shared.task import Array, DataSide

        class Data(DataSide):
            arrays = {"x": Array("float32")}
            def examples(self, folder): ...
            def row(self, example, features, companion): ...
            def read(self, example):
                return nothing_of_that_name
    """)
    )
    side = Task.of(str(tmp_path / "mine.py")).data_side()(None)
    assert "a: can't be read: mine.py line 9 (in read): NameError: name 'nothing_of_that_name'" in (
        str(failure_of(side, tmp_path / "a"))
    )


def test_a_file_that_is_convicted_is_not_touched(tmp_path):
    os.mkfifo(tmp_path / "a")
    error = failure_of(Whole(AssertionError()), tmp_path / "a", convicted={0: "SIGSEGV"})
    assert "decoding it crashes the process (SIGSEGV). Convert the file again" in str(error)
    assert not error.transient


def test_speech_is_read_as_its_index_says(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, np.linspace(-0.5, 0.5, 5_000), 22_050, subtype="FLOAT")
    columns = {
        "start": np.array([1_000]), "num_samples": np.array([2_000]),
        "sample_rate": np.array([22_050]),
    }  # fmt: skip
    index = Index(columns, {}, {}, [])

    def load():
        task = SpeechData(Config())
        return make_loader(task, lambda row: Indexed(index, row, path), {})(0, lambda: None)

    found = load()
    assert found.shape == (2_000,) and np.abs(found).max() == pytest.approx(0.95)
    path.unlink()
    with pytest.raises(ReadError, match="No such file") as caught:
        load()
    assert caught.value.transient
    os.mkfifo(path)
    with pytest.raises(ReadError, match="not a regular file") as caught:
        load()
    assert not caught.value.transient
