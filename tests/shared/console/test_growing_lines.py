"""A file of lines that is read while it grows, is cut back, and is replaced."""

import itertools
import json
import os

from shared.console.growing_lines import GrowingLines


def add(path, *steps):
    with open(path, "a", encoding="utf-8") as file:
        for step in steps:
            file.write(json.dumps({"step": step}) + "\n")


def steps_of(lines):
    return [record["step"] for record in lines.read()]


def test_what_is_added_is_read_and_half_a_line_waits_for_its_end(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = GrowingLines(path)
    assert lines.read() == []
    add(path, 1, 2)
    assert steps_of(lines) == [1, 2]
    with open(path, "a") as file:
        file.write('{"step": ')
    assert steps_of(lines) == [1, 2]
    with open(path, "a") as file:
        file.write('3}\nno json\n[4]\n{"step": 5}\n')
    assert steps_of(lines) == [1, 2, 3, 5]


def test_what_is_cut_back_and_grown_again_is_read_anew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = GrowingLines(path)
    add(path, 11, 12, 13)
    assert steps_of(lines) == [11, 12, 13]
    os.truncate(path, len('{"step": 11}\n'))
    add(path, 21, 22, 23)  # longer than before
    assert steps_of(lines) == [11, 21, 22, 23]
    path.unlink()
    assert lines.read() == []
    add(path, 7)
    assert steps_of(lines) == [7]


def test_only_what_is_new_is_read(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    lines = GrowingLines(path)
    add(path, *range(1000))
    lines.read()
    read, pread = [], os.pread

    def note(descriptor, size, at):
        read.append(pread(descriptor, size, at))
        return read[-1]

    monkeypatch.setattr(os, "pread", note)
    add(path, 1000)
    assert len(lines.read()) == 1001
    assert sum(map(len, read)) < 1000


def test_of_a_long_file_a_part_is_kept_evenly_and_all_that_is_dear(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = GrowingLines(path, most=100, is_dear=lambda record: record["step"] % 500 == 499)
    for begin in range(0, 10_000, 700):  # as it grows
        add(path, *range(begin, min(begin + 700, 10_000)))
        found = steps_of(lines)
        common = [step for step in found if step % 500 != 499]
        assert len(common) <= 100 and found == sorted(found)
    assert [step for step in found if step % 500 == 499] == list(range(499, 10_000, 500))
    gaps = {later - earlier for earlier, later in itertools.pairwise(common)}
    assert len(common) > 50 and max(gaps) - min(gaps) <= 1
    os.truncate(path, 0)
    add(path, 1, 2, 3)
    assert steps_of(lines) == [1, 2, 3]
