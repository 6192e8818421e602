"""What a data process was reading can be read after its death."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shared.places.local_place import WorkerProcess
from shared.places.place import WorkerOrder
from shared.worker.contract import RECORD_VARIABLE, SUSPECTS_VARIABLE
from shared.worker.decoding_record import (
    ReadingRecord,
    rows_left_behind,
    suspects_from_environment,
)

ROOT = Path(__file__).resolve().parents[3]
READS = """
import os, pathlib, signal, sys
from shared.worker.decoding_record import ReadingRecord
with ReadingRecord.of_this_process(pathlib.Path(sys.argv[1])) as record:
    for slot, row in enumerate([7, 0, 41, 7]):
        record.begin(slot, row)
    record.begin(1023, 5)
    record.end(1023)
    if len(sys.argv) > 2:
        os.kill(os.getpid(), signal.Signals[sys.argv[2]])
"""


@pytest.fixture
def by_hand(tmp_path, monkeypatch):
    """Runs a process that reads, without a launcher: its exit status."""
    monkeypatch.delenv(RECORD_VARIABLE, raising=False)
    return lambda *how: (
        subprocess.run(
            [sys.executable, "-c", READS, str(tmp_path), *how], cwd=ROOT, check=False, timeout=60
        ).returncode
    )


def test_the_rows_outlive_the_process_that_read_them(tmp_path):
    order = WorkerOrder("w", "data", ("-c", READS, str(tmp_path), "SIGSEGV"), {}, tmp_path / "log")
    child = WorkerProcess(order, lambda name, report: None)
    status = child.process.wait(60)
    assert status == -signal.SIGSEGV, (tmp_path / "log").read_text()
    assert child.was_reading() == (0, 7, 41)
    assert list(tmp_path.glob(".reading-*")) == []
    child.reader.drain()


def test_what_processes_started_by_hand_were_reading_is_found_once(tmp_path, by_hand):
    assert by_hand("SIGSEGV") == -signal.SIGSEGV
    assert by_hand("SIGKILL") == -signal.SIGKILL
    assert len(list(tmp_path.glob(".reading-*"))) == 2
    with rows_left_behind(tmp_path) as rows:
        assert rows == (0, 7, 41)
        with rows_left_behind(tmp_path) as others:
            assert others == ()
    assert list(tmp_path.glob(".reading-*")) == []


def test_who_dies_over_what_was_left_behind_leaves_it_to_the_next(tmp_path, by_hand):
    by_hand("SIGSEGV")
    with pytest.raises(KeyboardInterrupt), rows_left_behind(tmp_path):
        raise KeyboardInterrupt
    with rows_left_behind(tmp_path) as rows:
        assert rows == (0, 7, 41)


def test_an_orderly_end_leaves_nothing_behind(tmp_path, by_hand):
    assert by_hand() == 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_process_that_lives_is_reading_is_its_own(tmp_path, monkeypatch):
    monkeypatch.delenv(RECORD_VARIABLE, raising=False)
    with ReadingRecord.of_this_process(tmp_path) as record:
        record.begin(0, 3)
        assert record.rows() == (3,)
        with rows_left_behind(tmp_path) as rows:
            assert rows == ()
        assert (tmp_path / f".reading-{os.getpid()}").exists()
        record.end(0)
        assert record.rows() == ()


def test_a_place_that_can_not_be_written_to_is_no_hindrance(tmp_path, monkeypatch):
    monkeypatch.delenv(RECORD_VARIABLE, raising=False)
    with ReadingRecord.of_this_process(tmp_path / "gone") as record:
        record.begin(0, 3)
        assert record.rows() == (3,)


def test_a_damaged_record_is_read_as_far_as_it_goes(tmp_path):
    (tmp_path / ".reading-1").write_bytes((4).to_bytes(8, "little") + b"\1\0")
    (tmp_path / ".reading-2").symlink_to("/etc/passwd")
    with rows_left_behind(tmp_path) as rows:
        assert rows == (0, 3)
    assert Path("/etc/passwd").exists()


def test_the_suspects_come_through_the_environment(monkeypatch):
    monkeypatch.delenv(SUSPECTS_VARIABLE, raising=False)
    assert suspects_from_environment() == ()
    monkeypatch.setenv(SUSPECTS_VARIABLE, "")
    assert suspects_from_environment() == ()
    monkeypatch.setenv(SUSPECTS_VARIABLE, "3,41")
    assert suspects_from_environment() == (3, 41)
