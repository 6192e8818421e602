"""Batches that a replay leaves out: a damaged line costs only itself."""

from model_worker.training.skipped_batches import SkippedBatches


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
