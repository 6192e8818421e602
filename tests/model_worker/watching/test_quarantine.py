"""The quarantine: a damaged line costs only itself."""

from types import SimpleNamespace

import pytest

from model_worker.watching.quarantine import Quarantine


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
