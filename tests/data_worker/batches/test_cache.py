"""The feature cache: bounded, never stale, never damaged."""

import os
import threading
import time

import numpy as np
import pytest

from data_worker.batches.cache import DiskCache, MemoryCache, NoCache, as_arrays, make_room

COLUMNS = 82


def features(frames=10, seed=0):
    return np.random.default_rng(seed).normal(size=(frames, COLUMNS)).astype(np.float32)


def disk_cache(directory, max_bytes=1 << 20, key_of=str):
    return DiskCache(directory, max_bytes, key_of)


def entries(directory):
    return sorted(directory.glob("*.features"))


def bytes_on_disk(directory):
    return sum(entry.stat().st_size for entry in os.scandir(directory))


def test_no_cache_keeps_nothing():
    cache = NoCache()
    cache.put(1, features())
    assert cache.get(1) is None


@pytest.mark.parametrize("kind", ["memory", "disk"])
@pytest.mark.parametrize("frames", [1, 10])
def test_what_was_put_in_comes_out_bit_for_bit(tmp_path, kind, frames):
    cache = MemoryCache(1 << 20) if kind == "memory" else disk_cache(tmp_path)
    assert cache.get(3) is None
    cache.put(3, features(frames))
    found = cache.get(3)
    assert found.dtype == np.float32
    assert found.tobytes() == features(frames).tobytes()
    assert cache.num_entries == 1
    assert cache.get(4) is None


@pytest.mark.parametrize("kind", ["memory", "disk"])
@pytest.mark.parametrize(
    "made",
    [
        np.float32(3.5),
        np.zeros((0, 4), np.int16),
        np.arange(24).reshape(2, 3, 4).transpose(),
        {"a": np.ones(3, np.float16), "b": np.array(True), "c": np.array([], np.uint64)},
        {},
    ],
    ids=["number", "empty", "transposed", "several", "none"],
)
def test_any_arrays_come_out_with_their_names_shapes_and_dtypes(tmp_path, kind, made):
    cache = MemoryCache(1 << 20) if kind == "memory" else disk_cache(tmp_path)
    put = as_arrays(made)
    cache.put(3, put)
    found = cache.get(3)
    assert isinstance(found, dict) == isinstance(made, dict)
    names = made if isinstance(made, dict) else {"": made}
    found = found if isinstance(found, dict) else {"": found}
    assert found.keys() == names.keys()
    for name, value in names.items():
        value = np.asarray(value)
        assert (found[name].shape, found[name].dtype) == (value.shape, value.dtype)
        np.testing.assert_array_equal(found[name], value)


def test_a_row_that_is_kept_does_not_keep_its_whole_batch():
    batch = np.zeros((100, 10), np.float32)
    cache = MemoryCache(1 << 20)
    cache.put(3, as_arrays(batch[3]))
    assert not np.shares_memory(cache.get(3), batch)


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (None, "NoneType"),
        ("text", "str"),
        ([np.ones(2), np.ones(3)], "list"),
        ((np.ones(2), np.ones(2, int)), "tuple"),
        (np.array([None]), "ndarray"),
        ({"a": "text"}, "a dictionary with str under 'a'"),
        ({1: np.ones(2)}, "a dictionary with ndarray under 1"),
    ],
)
def test_what_is_no_arrays_of_numbers_is_no_features(made, what):
    with pytest.raises(TypeError, match=f"the features of an example are {what}$"):
        as_arrays(made)


def test_only_memory_is_at_hand(tmp_path):
    caches = [MemoryCache(1 << 20), disk_cache(tmp_path), NoCache()]
    for cache in caches:
        cache.put(3, features())
    assert [cache.at_hand(3) is not None for cache in caches] == [True, False, False]


def test_memory_is_bounded_and_what_came_first_stays():
    one = features().nbytes
    cache = MemoryCache(3 * one)
    for row in range(10):
        cache.put(row, features(seed=row))
        cache.put(row, features(seed=row))  # a second time costs nothing
    assert [row for row in range(10) if cache.get(row) is not None] == [0, 1, 2]


def test_memory_stays_bounded_when_many_threads_put():
    one = features().nbytes
    cache = MemoryCache(20 * one)

    def put_some(n):
        for k in range(50):
            cache.put(n * 100 + k, features())

    threads = [threading.Thread(target=put_some, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(cache.get(row) is not None for row in range(400)) == 20


def test_the_disk_is_bounded_also_over_restarts(tmp_path):
    limit = 3 * (features().nbytes + 100)
    for start in (0, 5):
        cache = disk_cache(tmp_path, limit)
        for row in range(start, start + 5):
            cache.put(row, features(seed=row))
    assert len(entries(tmp_path)) == 3
    assert bytes_on_disk(tmp_path) <= limit


def test_another_process_s_entries_are_found(tmp_path):
    disk_cache(tmp_path).put(7, features())
    np.testing.assert_array_equal(disk_cache(tmp_path).get(7), features())


def test_a_changed_file_or_setting_never_meets_an_old_entry(tmp_path):
    disk_cache(tmp_path, key_of=lambda row: f"{row}|mtime 1|trim 50").put(7, features())
    assert disk_cache(tmp_path, key_of=lambda row: f"{row}|mtime 2|trim 50").get(7) is None
    assert disk_cache(tmp_path, key_of=lambda row: f"{row}|mtime 1|trim 60").get(7) is None
    assert disk_cache(tmp_path, key_of=lambda row: f"{row}|mtime 1|trim 50").get(7) is not None


def damaged(content):
    """Every kind of damage that a disk or a crash can do to an entry."""
    yield b""
    yield content[:10]
    yield content[:-1]
    yield content + b"\0"
    yield b"\0" * len(content)
    for place in (0, 18, 22, len(content) // 2, len(content) - 1):
        yield content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]


def test_a_damaged_entry_is_not_served_and_gives_way_to_a_good_one(tmp_path):
    cache = disk_cache(tmp_path)
    cache.put(7, features())
    (path,) = entries(tmp_path)
    content = path.read_bytes()
    for broken in damaged(content):
        path.write_bytes(broken)
        assert cache.get(7) is None
        cache.put(7, features())
        np.testing.assert_array_equal(cache.get(7), features())


def test_a_full_or_read_only_disk_ends_the_caching_and_nothing_else(tmp_path, monkeypatch):
    cache = disk_cache(tmp_path)
    cache.put(1, features())

    def fail(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    cache.put(2, features())
    monkeypatch.undo()
    cache.put(3, features())
    assert cache.get(1) is not None
    assert cache.get(2) is None
    assert cache.get(3) is None
    assert len(os.listdir(tmp_path)) == 1, "a temporary file was left"


def test_a_file_that_vanishes_while_the_cache_is_opened_is_no_error(tmp_path, monkeypatch):
    disk_cache(tmp_path).put(1, features())
    scan = os.scandir

    def scan_and_lose(directory):
        found = list(scan(directory))
        for entry in found:
            os.unlink(entry.path)
        return iter(found)

    monkeypatch.setattr(os, "scandir", scan_and_lose)
    assert disk_cache(tmp_path).get(1) is None


def test_several_processes_share_what_is_free(tmp_path):
    one = features().nbytes + 100
    caches = [DiskCache(tmp_path, 6 * one, str, num_writers=2) for _ in range(2)]
    for number, cache in enumerate(caches):
        for row in range(6):
            cache.put(10 * number + row, features(seed=row))
    assert len(entries(tmp_path)) == 6
    assert bytes_on_disk(tmp_path) <= 6 * one


def test_features_of_other_settings_give_way_the_longest_unused_first(tmp_path):
    for age, name in enumerate(["own", "new", "old"]):
        disk_cache(tmp_path / name).put(1, features())
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    one = bytes_on_disk(tmp_path / "old")
    make_room(tmp_path / "own", 3 * one, one)
    assert sorted(os.listdir(tmp_path)) == ["new", "old", "own"]
    make_room(tmp_path / "own", 3 * one, 2 * one)
    assert sorted(os.listdir(tmp_path)) == ["new", "own"]


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    for name, age_s in (("a.1.tmp", 7200), ("b.2.tmp", 0)):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    disk_cache(tmp_path)
    assert os.listdir(tmp_path) == ["b.2.tmp"]
