"""The run's logs: a disk that is full for a while or damages a line costs no more than that."""

import errno
import json
import os
from types import SimpleNamespace

import pytest

from model_worker.training.skipped_batches import SkippedBatches
from model_worker.watching.run_logs import JsonLines, Quarantine, cut_back
from shared.errors import TandemError


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
    monkeypatch.setattr("model_worker.watching.run_logs._MAX_WAITING_BYTES", 100)
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


class IndexOfTen(SimpleNamespace):
    """As much of an index as the quarantine looks at."""

    def __init__(self):
        super().__init__(ids=[f"u{n}" for n in range(10)], line=range(10), paths=["x"] * 10)

    def __len__(self):
        return 10


@pytest.mark.parametrize(
    "damage",
    [
        b'{"id": "u4", "row": 4, "from_ba\n',
        b"\x00\xff\xfe\n",
        b"[1, 2]\n",
        b"[" * 100_000 + b"\n",
        b'{"row": "4", "from_batch": 8}\n',
        b'{"row": 10, "from_batch": 8}\n',
        b'{"from_batch": -1}\n',
    ],
    ids=["cut", "bytes", "a list", "nested", "text", "no such row", "without a row"],
)
def test_a_damaged_line_of_the_quarantine_costs_only_itself(tmp_path, caplog, damage):
    path = tmp_path / "quarantine.jsonl"
    written = Quarantine(path, IndexOfTen())
    written.add(3, 7, "gone")
    with open(path, "ab") as file:
        file.write(b'{"id": "x", "kind": "filtered"}\n' + damage)
    written.add(5, 9, "gone too")
    with open(path, "ab") as file:
        file.write(b'{"row": 6, "from_batch": 1')
    again = Quarantine(path, IndexOfTen())
    assert again.exclusions() == [[3, 7], [5, 9]]
    assert caplog.text.count("quarantine.jsonl: line 3 is damaged and passed over") == 1
    again.add(6, 11, "and this one")
    assert Quarantine(path, IndexOfTen()).exclusions() == [[3, 7], [5, 9], [6, 11]]


def test_a_damaged_line_of_skipped_batches_costs_itself(tmp_path):
    path = tmp_path / "skipped.jsonl"
    skipped = SkippedBatches(path)
    for first in (10, 20, 30):
        skipped.add(first, first + 2)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"first": 2\x00, "last": 22}\n' + lines[2] + b'{"first": 4')
    again = SkippedBatches(path)
    assert [n for n in range(40) if again.contains(n)] == [10, 11, 12, 30, 31, 32]
    again.add(35, 35)
    assert SkippedBatches(path).contains(35)
