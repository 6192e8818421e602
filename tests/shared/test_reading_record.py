"""What a data process was reading can be read after its death."""

import signal

from shared.reading_record import SUSPECTS_VARIABLE, ReadingRecord, suspects_from_environment
from shared.worker_processes import WorkerProcess

CRASHES = """
import os, signal
from shared.reading_record import ReadingRecord
record = ReadingRecord.from_environment()
for slot, row in enumerate([7, 0, 41, 7]):
    record.begin(slot, row)
record.begin(1023, 5)
record.end(1023)
os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_the_rows_outlive_the_process_that_read_them(tmp_path):
    child = WorkerProcess("w", ["-c", CRASHES], {}, tmp_path / "log", lambda name, report: None)
    status = child.process.wait(60)
    assert status == -signal.SIGSEGV, (tmp_path / "log").read_text()
    assert child.was_reading() == (0, 7, 41)
    child.reader.drain()


def test_a_process_started_by_hand_has_a_record_of_its_own(monkeypatch):
    monkeypatch.delenv("TANDEM_READING_FD", raising=False)
    record = ReadingRecord.from_environment()
    record.begin(0, 3)
    assert record.rows() == (3,)
    record.end(0)
    assert record.rows() == ()


def test_the_suspects_come_through_the_environment(monkeypatch):
    monkeypatch.delenv(SUSPECTS_VARIABLE, raising=False)
    assert suspects_from_environment() == ()
    monkeypatch.setenv(SUSPECTS_VARIABLE, "")
    assert suspects_from_environment() == ()
    monkeypatch.setenv(SUSPECTS_VARIABLE, "3,41")
    assert suspects_from_environment() == (3, 41)
