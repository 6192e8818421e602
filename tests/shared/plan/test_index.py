"""The index: what is saved is loaded, and nothing that is damaged is loaded."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from shared.errors import DataError
from shared.plan.index import Index, RaggedColumn, StringColumn


def make_index(num_rows=3, **changes) -> Index:
    """An index of speech, some of its columns, tables and facts changed."""
    lengths = np.arange(num_rows) % 5 + 3
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    columns = {
        "ids": StringColumn.of(f"ü{n}" for n in range(num_rows)),
        "paths": StringColumn.of(f"wavs/ü{n}.wav" for n in range(num_rows)),
        "root": np.zeros(num_rows, np.uint8),
        "line": np.arange(1, num_rows + 1, dtype=np.int32),
        "split": (np.arange(num_rows) % 3 == 0).astype(np.uint8),
        "sample_rate": np.full(num_rows, 22_050, np.int32),
        "start": np.zeros(num_rows, np.int64),
        "num_samples": np.full(num_rows, 44_100, np.int64),
        "num_channels": np.ones(num_rows, np.int16),
        "num_frames": np.full(num_rows, 172, np.int32),
        "speaker": np.zeros(num_rows, np.int32),
        "symbols": RaggedColumn(np.ones(offsets[-1], np.int16), offsets),
        "num_symbols": lengths.astype(np.int32),
        "file_size": np.full(num_rows, 88_244, np.int64),
        "file_mtime_ns": np.full(num_rows, 10**18, np.int64),
    }
    tables = {"mel_basis": np.ones((80, 513), np.float32)}
    facts = {
        "symbol_table": ["_", "<s>", "</s>", " ", "ə"],
        "speakers": ["default"],
        "mel_mean": -5.0,
        "mel_std": 2.0,
        "pitch_mean": 5.0,
        "pitch_std": 0.3,
        "energy_mean": 1.0,
        "energy_std": 1.0,
        "text": {"frontend": "phonemes", "language": "en-us"},
    }
    own = {
        "left_out": [{"id": "x", "line": 9, "path": "x.wav", "kind": "bad", "reason": "gone"}],
    }
    for part in (columns, tables, facts, own):
        part.update({name: changes.pop(name) for name in list(changes) if name in part})
    return Index(columns, tables, facts, **own | changes)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "index.safetensors"
    make_index().save(path)
    return path


def test_an_index_comes_back_as_it_was(saved):
    expected, loaded = make_index().with_fingerprint(), Index.load(saved)
    assert len(loaded) == 3
    assert loaded.columns.keys() == expected.columns.keys()
    assert loaded.tables.keys() == expected.tables.keys()
    assert loaded.facts == expected.facts
    assert loaded.left_out == expected.left_out
    assert loaded.fingerprint == expected.fingerprint != ""
    for name in (*expected.columns, *expected.tables, *expected.facts):
        ours, theirs = getattr(expected, name), getattr(loaded, name)
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
        elif isinstance(ours, StringColumn):
            assert ours.to_list() == theirs.to_list() == [ours[n] for n in range(3)]
        elif isinstance(ours, RaggedColumn):
            assert [ours[n].tolist() for n in range(3)] == [theirs[n].tolist() for n in range(3)]
        else:
            assert ours == theirs
    assert loaded.ids[-1] == "ü2"
    with pytest.raises(IndexError):
        loaded.ids[3]


def test_an_index_is_read_by_mapping_and_can_not_be_written_through(saved):
    loaded = Index.load(saved)
    with pytest.raises(ValueError, match="read-only"):
        loaded.num_frames[0] = 1


def test_other_tools_can_read_it(saved):
    from safetensors.numpy import load_file

    arrays = load_file(saved)
    assert arrays["num_frames"].tolist() == [172] * 3
    assert json.loads(arrays["facts"].tobytes())["speakers"] == ["default"]


def test_saving_leaves_nothing_beside_it_and_keeps_the_old_one_on_failure(saved):
    before = saved.read_bytes()
    with pytest.raises(TypeError):
        make_index(text={"frontend": object()}).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["index.safetensors"]


def test_the_fingerprint_knows_content_and_neither_times_nor_sizes():
    print_of = lambda **changes: make_index(**changes).with_fingerprint().fingerprint  # noqa: E731
    assert print_of() == print_of()
    assert print_of(file_mtime_ns=np.zeros(3, np.int64)) == print_of()
    assert print_of(left_out=[]) == print_of()
    for changes in (
        {"num_samples": np.full(3, 44_101, np.int64)},
        {"split": np.zeros(3, np.uint8)},
        {"speakers": ["other"]},
        {"mel_mean": -5.1},
        {"ids": StringColumn.of(["a", "b", "c"])},
        {"text": {"frontend": "characters", "language": "en-us"}},
        {"symbol_table": ["_", "<s>", "</s>", " ", "e"]},
    ):
        assert print_of(**changes) != print_of()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"split": np.full(3, 2, np.uint8)}, "split holds an impossible"),
        ({"root": np.full(3, 2, np.uint8)}, "root holds an impossible"),
        ({"line": np.ones(3, np.int64)}, "line does not fit"),
        ({"paths": np.ones(3, np.int64)}, "paths does not fit"),
        ({"num_frames": np.ones(4, np.int32)}, "num_frames does not fit"),
        (
            {"symbols": RaggedColumn(np.ones(12, np.int16), np.array([0, 4, 3, 12]))},
            "symbols does not fit",
        ),
        ({"ids": StringColumn(np.zeros(3, np.uint8), np.array([0, 2, 1, 3]))}, "ids does not fit"),
        ({"ids": StringColumn.of(["a"])}, "ids does not fit"),
        ({"fingerprint": "0" * 64}, "does not match its fingerprint"),
    ],
)
def test_an_index_that_contradicts_itself_is_refused(tmp_path, changes, message):
    path = tmp_path / "index.safetensors"
    make_index(**changes).save(path)
    with pytest.raises(DataError, match=message):
        Index.load(path)


def test_a_flipped_bit_or_a_cut_never_loads_silently(saved):
    good, whole = Index.load(saved), saved.read_bytes()
    generator = np.random.default_rng(3)
    for attempt in range(400):
        raw = bytearray(whole)
        if attempt % 4 == 0:
            raw = raw[: int(generator.integers(len(raw)))]
        else:
            raw[int(generator.integers(len(raw)))] ^= 1 << int(generator.integers(8))
        saved.write_bytes(raw)
        try:
            loaded = Index.load(saved)
        except DataError as error:
            assert "Remove that file and start the run once more" in str(error)
        else:
            # Only what no batch depends on may differ: lines, times and the reasons.
            assert loaded.fingerprint == good.fingerprint


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"\xff" * 64,
        b"\0" * 64,
        (2).to_bytes(8, "little") + b"{}" + b"\0" * 32,
        (10**18).to_bytes(8, "little") + b"{}",
        (30).to_bytes(8, "little") + b"[" * 30,
        (40).to_bytes(8, "little") + b'{"__metadata__": {"format": "other"}}   ',
    ],
)
def test_what_is_no_index_is_refused_in_a_sentence(tmp_path, content):
    path = tmp_path / "index.safetensors"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a usable index"):
        Index.load(path)


def test_a_missing_index_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(DataError, match="no index here"):
        Index.load(tmp_path / "index.safetensors")
    with pytest.raises(DataError, match="no index here"):
        Index.load(tmp_path)


def test_another_version_is_named(saved):
    raw = saved.read_bytes().replace(b'"version":"1"', b'"version":"7"')
    saved.write_bytes(raw)
    with pytest.raises(DataError, match="version 7, this program reads 1"):
        Index.load(saved)


def other_index() -> Index:
    """Of a task that was never meant for speech."""
    rows = 3
    columns = {
        "ids": StringColumn.of("abc"),
        "paths": StringColumn.of(["a.png", "b/ü.png", "c.png"]),
        "root": np.zeros(rows, np.uint8),
        "line": np.zeros(rows, np.int32),
        "split": np.array([0, 1, 0], np.uint8),
        "file_size": np.full(rows, 7, np.int64),
        "file_mtime_ns": np.full(rows, 7, np.int64),
        "width": np.array([4, 5, 6], np.int32),
        "is_scan": np.array([True, False, True]),
        "score": np.array([0.25, 1e-300, -1.0]),
        "payload": StringColumn.of(['{"a": 1}', "null", '"ü"']),
        "strokes": RaggedColumn.of(
            [np.zeros(0, np.float32), np.ones(4, np.float32), np.full(1, 2.0, np.float32)]
        ),
    }
    tables = {"colours": np.arange(24, dtype=np.uint8).reshape(2, 3, 4)}
    return Index(columns, tables, {"groups": ["a", "b"], "classes": {"x": [1, 2]}}, [])


def test_the_columns_tables_and_facts_of_any_task_come_back(tmp_path):
    path = tmp_path / "index.safetensors"
    other_index().save(path)
    expected, loaded = other_index().with_fingerprint(), Index.load(path)
    assert loaded.facts == expected.facts and loaded.fingerprint == expected.fingerprint
    assert loaded.columns.keys() == expected.columns.keys()
    assert loaded.tables.keys() == expected.tables.keys()
    np.testing.assert_array_equal(loaded.colours, expected.colours)
    for name, column in expected.columns.items():
        for row in range(3):
            ours, theirs = column[row], loaded.columns[name][row]
            if isinstance(column, StringColumn):
                assert ours == theirs
            else:
                assert ours.dtype == theirs.dtype and ours.tolist() == theirs.tolist()
    assert loaded.classes == {"x": [1, 2]}
    with pytest.raises(AttributeError, match="no 'speakers'"):
        _ = loaded.speakers


SAVE = """
import sys
import numpy as np
from shared.plan.index import Index, RaggedColumn, StringColumn
columns = {
    "ids": StringColumn.of("ab"), "paths": StringColumn.of("ab"), "root": np.zeros(2, np.uint8),
    "line": np.zeros(2, np.int32), "split": np.zeros(2, np.uint8),
    "file_size": np.zeros(2, np.int64), "file_mtime_ns": np.zeros(2, np.int64),
    "odd": RaggedColumn.of([np.ones(3, np.int16), np.ones(0, np.int16)]),
}
Index(columns, {"table": np.ones((2, 2))}, {"fact": "ü"}, []).save(sys.argv[1])
"""


def test_the_same_index_is_the_same_bytes_whichever_process_saves_it(tmp_path):
    contents = set()
    for number in range(6):
        path = tmp_path / f"{number}.safetensors"
        environment = os.environ | {"PYTHONHASHSEED": str(number), "PYTHONPATH": os.getcwd()}
        subprocess.run([sys.executable, "-c", SAVE, path], env=environment, check=True)
        contents.add(path.read_bytes())
    assert len(contents) == 1
    assert Index.load(path).facts == {"fact": "ü"}
