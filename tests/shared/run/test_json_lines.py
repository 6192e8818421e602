"""Files of lines: a disk that is full for a while or damages a line costs no more than that."""

import errno
import json
import os

import pytest

from shared.errors import TandemError
from shared.run.json_lines import JsonLines, cut_back


class FullDisk:
    """os.write that takes `room` bytes and then refuses."""

    def __init__(self, monkeypatch, room):
        self.room, self._write = room, os.write
        monkeypatch.setattr(os, "write", self)

    def __call__(self, descriptor, content):
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = self._write(descriptor, bytes(content)[: self.room])
        self.room -= count
        return count


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("room", range(0, 60, 7))
def test_what_a_full_disk_refused_is_written_later_without_a_gap(tmp_path, monkeypatch, room):
    lines = JsonLines(tmp_path / "log.jsonl")
    disk = FullDisk(monkeypatch, room)
    records = [{"batch_index": number, "word": "café"} for number in range(4)]
    for record in records:
        lines.write(record)
        if disk.room < 40:
            with pytest.raises(OSError, match="No space"):
                lines.flush()
    disk.room = 10_000
    lines.flush()
    lines.write({"batch_index": 4})
    lines.close()
    assert read(tmp_path / "log.jsonl") == [*records, {"batch_index": 4}]


def test_a_line_that_must_be_on_disk_ends_the_run_with_a_remedy(tmp_path, monkeypatch):
    lines = JsonLines(tmp_path / "quarantine.jsonl")
    FullDisk(monkeypatch, 5)
    with pytest.raises(TandemError, match="quarantine.jsonl: can't be written.*Free some space"):
        lines.write({"row": 1}, durable=True)


def test_a_file_outlives_the_machine_with_its_name(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def noting(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    path = tmp_path / "skipped.jsonl"
    lines = JsonLines(path)
    lines.write({"first": 1})
    lines.flush()
    assert synced == []
    lines.flush(durable=True)
    lines.write({"first": 2}, durable=True)
    lines.close()
    assert synced == [str(path), str(tmp_path), str(path)]


def test_what_waits_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("shared.run.json_lines._MAX_WAITING_BYTES", 100)
    lines = JsonLines(tmp_path / "log.jsonl")
    FullDisk(monkeypatch, 0)
    with pytest.raises(TandemError, match="can't be written"):
        for number in range(20):
            lines.write({"batch_index": number})


def test_a_half_line_and_all_after_it_are_cut_off(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n{"st')
    cut_back(path, lambda record: True)
    assert read(path) == [{"step": 1}, {"step": 2}]
    cut_back(path, lambda record: record["step"] < 2)
    assert read(path) == [{"step": 1}]
