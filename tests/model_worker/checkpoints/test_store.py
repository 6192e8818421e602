"""No half checkpoint, ever: whatever interrupts a save or damages a file, a good one loads."""

import errno
import json
import os
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy

from model_worker.checkpoints import files
from model_worker.checkpoints import store as checkpoint_store
from model_worker.checkpoints.files import NotFiniteError, OsLayer
from model_worker.checkpoints.store import CheckpointStore
from shared.errors import CheckpointError, ConfigError


class Killed(BaseException):
    """The process is gone: nothing after this call happens, clean-up included."""


class Unsynced(OsLayer):
    """The real calls but fsync: slow, and only a power cut could tell the difference."""

    @staticmethod
    def fsync(descriptor):
        pass


class InterruptedOs:
    """The calls of `Unsynced`, of which call number `fail_at` fails."""

    def __init__(self, fail_at=None, fault=None, torn=False):
        self.log, self.fail_at, self.fault, self.torn = [], fail_at, fault, torn
        self.dead = False

    def __getattr__(self, name):
        real = getattr(Unsynced, name)

        def call(*arguments):
            if self.dead:
                raise Killed
            self.log.append((name, *arguments))
            if len(self.log) - 1 == self.fail_at:
                if self.torn and name == "write":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                if self.fault is Killed:
                    self.dead = True
                    raise Killed
                raise OSError(self.fault, os.strerror(self.fault))
            return real(*arguments)

        return call


def content(step, size=500):
    generator = np.random.default_rng(step)
    groups = {
        "weights": {
            "encoder/kernel": generator.normal(size=(size, 3)).astype(np.float32),
            "encoder/bias": generator.normal(size=3).astype(np.float16),
        },
        "optimizer": {"iteration": np.array(step), "m": generator.normal(size=size)},
    }
    return groups, {"next_batch": 8 * step, "exclusions": [[3, step]], "best": None}


def save(store, step, **changes):
    groups, state = content(step, **changes)
    return store.save(step, groups, state)


def best_value(checkpoint):
    """The validation value that made it the best."""
    return json.loads((checkpoint.path / "best.json").read_text())["value"]


def is_step(checkpoint, step):
    groups, state = content(step)
    if (
        checkpoint.step != step
        or checkpoint.state != state
        or checkpoint.groups.keys() != groups.keys()
    ):
        return False
    return all(
        np.array_equal(array, checkpoint.groups[group][name])
        for group, arrays in groups.items()
        for name, array in arrays.items()
    )


def steps(store):
    return sorted(path.name for path in store.directory.iterdir())


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "run" / "checkpoints", keep_last=2)


def test_what_was_saved_is_loaded(store):
    assert store.load_latest() is None
    assert save(store, 7).name == "step-00000007"
    assert is_step(store.load_latest(), 7)
    assert store.verify(store.directory / "step-00000007") == []


def test_all_kinds_of_arrays_survive_and_others_can_read_them(store):
    arrays: dict[str, np.ndarray] = {
        "scalar": np.array(3.5, np.float32),
        "empty": np.zeros((0, 4), np.int16),
        "transposed": np.arange(12, dtype=np.int64).reshape(3, 4).T,
        "big_endian": np.arange(5, dtype=">f4"),
        "flags": np.array([True, False]),
        "bytes": np.arange(255, dtype=np.uint8),
        "strided": np.arange(10.0)[::3],
    }
    path = store.save(1, {"weights": arrays, "nothing": {}}, {})
    loaded = store.load_latest().groups
    assert loaded["nothing"] == {}
    theirs = safetensors.numpy.load_file(path / "weights.safetensors")
    for name, array in arrays.items():
        for found in (loaded["weights"][name], theirs[name]):
            assert found.shape == array.shape and found.dtype.name == array.dtype.name
            assert np.array_equal(found, array)


def test_only_the_groups_that_are_asked_for_are_read(store):
    path = save(store, 1)
    (path / "optimizer.safetensors").write_bytes(b"damaged")
    loaded = store.load_latest(only_groups=["weights"])
    assert list(loaded.groups) == ["weights"] and loaded.state["next_batch"] == 8
    with pytest.raises(CheckpointError, match="no ema.safetensors"):
        store.load_latest(only_groups=["ema"])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_nothing_that_is_not_finite_is_saved(store, value, dtype):
    save(store, 1)
    groups, state = content(2)
    groups["optimizer"]["m"] = np.array([0, value], dtype)
    with pytest.raises(NotFiniteError, match="optimizer/m holds NaN or infinity"):
        store.save(2, groups, state)
    with pytest.raises(CheckpointError, match="without NaN"):
        store.save(2, content(2)[0], {"loss_scale": float(value)})
    assert steps(store) == ["step-00000001"]


def test_weights_that_are_not_finite_are_not_loaded_either(store, monkeypatch):
    save(store, 1)
    monkeypatch.setattr("model_worker.checkpoints.files.is_finite", lambda array: True)
    groups, state = content(2)
    groups["weights"]["encoder/bias"][0] = np.nan
    store.save(2, groups, state)
    monkeypatch.undo()
    skipped = []
    assert is_step(store.load_latest(skipped.append), 1)
    assert "weights.safetensors holds NaN or infinity in encoder/bias" in skipped[0]


def test_what_json_or_safetensors_cannot_hold_is_refused_in_words(store):
    with pytest.raises(CheckpointError, match="plain JSON"):
        store.save(1, {}, {"path": object()})
    with pytest.raises(CheckpointError, match="weights/names is of type object"):
        store.save(1, {"weights": {"names": np.array([None])}}, {})
    with pytest.raises(CheckpointError, match="can't name a group"):
        store.save(1, {"../weights": {}}, {})
    with pytest.raises(ConfigError, match="keep_last is 0"):
        CheckpointStore("anywhere", keep_last=0)
    assert store.load_latest() is None


def test_the_last_k_and_the_best_are_kept(store):
    for step in range(1, 7):
        save(store, step)
        if step == 2:
            assert store.load_best() is None
            store.mark_best(2, 0.5)
    assert steps(store) == ["best-00000002", "step-00000005", "step-00000006"]
    assert is_step(store.load_best(), 2) and best_value(store.load_best()) == 0.5
    store.mark_best(6, 0.25)
    assert steps(store) == ["best-00000006", "step-00000005", "step-00000006"]
    assert is_step(store.load_best(only_groups=None), 6) and best_value(store.load_best()) == 0.25
    assert is_step(store.load_latest(), 6)
    linked = (store.directory / "best-00000006" / "weights.safetensors").stat()
    assert linked.st_nlink == 2


def test_the_best_must_exist_be_whole_and_have_a_finite_value(store):
    path = save(store, 1)
    with pytest.raises(CheckpointError, match="no whole checkpoint of step 3.*Save it first"):
        store.mark_best(3, 1.0)
    for value in (float("nan"), float("inf")):
        with pytest.raises(CheckpointError, match="loss of step 1 is not a number, so it is not"):
            store.mark_best(1, value)
    (path / "weights.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="weights.safetensors has 0 bytes"):
        store.mark_best(1, 1.0)
    assert steps(store) == ["step-00000001"]


def test_the_best_is_copied_where_links_are_not_possible(tmp_path):
    class NoLinks(OsLayer):
        @staticmethod
        def link(src, dst, **_):
            raise OSError(errno.EPERM, "no links here")

    store = CheckpointStore(tmp_path, os_layer=NoLinks())
    save(store, 1)
    assert store.verify(store.mark_best(1, 1.0)) == []


def test_the_best_serves_when_all_others_are_damaged(store):
    save(store, 1)
    store.mark_best(1, 1.0)
    for step in (2, 3):
        (save(store, step) / "state.json").unlink()
    skipped = []
    assert is_step(store.load_latest(skipped.append), 1)
    assert len(skipped) == 2 and all("state.json is missing" in message for message in skipped)


def test_a_second_save_of_a_step_replaces_the_first(store):
    save(store, 1)
    save(store, 2)
    groups, state = content(2)
    store.save(2, groups, {**state, "again": True})
    assert store.load_latest().state["again"]
    assert len(steps(store)) == 2


def test_damaged_checkpoints_do_not_push_out_good_ones(store):
    save(store, 1)
    (save(store, 2) / "weights.safetensors").write_bytes(b"cut")
    (save(store, 9) / "weights.safetensors").write_bytes(b"cut")
    save(store, 3)
    found = store.load_latest()
    assert is_step(found, 3)
    shutil.rmtree(found.path)
    assert is_step(store.load_latest(), 1)


@pytest.mark.parametrize("file", ["manifest.json", "weights.safetensors"])
def test_one_that_was_passed_over_does_not_come_back_when_the_run_has_gone_on(store, file):
    save(store, 800)
    store.mark_best(800, 1.0)
    file = save(store, 900) / file
    hidden = file.rename(store.directory.parent / "not to be read for a while")
    skipped = []
    assert is_step(store.load_latest(skipped.append), 800)
    assert len(skipped) == 1 and "step-00000900" in skipped[0]
    save(store, 850)
    hidden.rename(file)
    assert is_step(store.load_latest(pytest.fail), 850)
    assert is_step(store.load_best(pytest.fail), 800)
    save(store, 900)  # trained again: the one that was left behind goes
    assert is_step(store.load_latest(pytest.fail), 900)
    assert steps(store) == ["best-00000800", "step-00000850", "step-00000900-2"]


def test_one_that_can_not_be_read_for_a_moment_is_used_when_there_is_no_other(store, monkeypatch):
    save(store, 1)
    read, failures = checkpoint_store.read_manifest, [OSError(errno.EIO, "")]

    def failing_once(path):
        if failures:
            raise files.NotWhole("can't be read") from failures.pop()
        return read(path)

    monkeypatch.setattr(checkpoint_store, "read_manifest", failing_once)
    assert is_step(store.load_latest(), 1)


def test_a_clock_that_was_set_back_does_not_make_the_last_one_the_oldest(store, monkeypatch):
    save(store, 800)
    save(store, 900)
    monkeypatch.setattr(checkpoint_store.time, "time_ns", lambda: 0)
    save(store, 850)
    assert is_step(store.load_latest(), 850)


def test_what_is_marked_as_the_best_does_not_become_the_newest(store):
    save(store, 1)
    save(store, 2)
    store.mark_best(1, 1.0)
    assert is_step(store.load_latest(), 2) and is_step(store.load_best(), 1)


def test_names_and_extra_files_do_not_matter(store):
    path = save(store, 5)
    save(store, 6).rename(store.directory / "aaa")
    path.rename(store.directory / "zzz copy")
    (store.directory / "notes.txt").write_text("mine")
    (store.directory / "aaa" / "notes.txt").write_text("mine")
    (store.directory / "pictures").mkdir()
    (store.directory / "latest").write_text("step-00000099")
    assert is_step(store.load_latest(), 6)
    save(store, 7)
    assert "pictures" in steps(store) and "notes.txt" in steps(store)


def test_a_newer_format_is_named_and_left_alone(store):
    save(store, 1)
    path = save(store, 2)
    manifest = json.loads((path / "manifest.json").read_bytes())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format_version": 7}))
    skipped = []
    assert is_step(store.load_latest(skipped.append), 1)
    assert "format 7" in skipped[0] and "reads up to 1" in skipped[0] and str(path) in skipped[0]
    for step in range(3, 8):
        save(store, step)
    assert path.exists()


def test_when_none_is_good_the_error_names_all(store):
    for step in (1, 2):
        (save(store, step) / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match="None of the 2 checkpoints") as raised:
        store.load_latest()
    assert "step-00000001" in str(raised.value) and "--fresh" in str(raised.value)


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"[" * 100_000,
        b'{"format_version": 1}',
        b"\xff\xfe",
        b" " * 2**21,
    ],
)
def test_any_nonsense_in_a_manifest_is_only_a_damaged_checkpoint(store, manifest):
    save(store, 1)
    (save(store, 2) / "manifest.json").write_bytes(manifest)
    skipped = []
    assert is_step(store.load_latest(skipped.append), 1)
    assert "manifest.json is damaged" in skipped[0]


def test_no_bit_flip_and_no_truncation_is_loaded(store):
    """Random damage in any file of either checkpoint: found, said, and the one before is used."""
    save(store, 1)
    path = save(store, 2)
    store.mark_best(2, 1.0)
    shutil.rmtree(path)
    path = store.directory / "best-00000002"
    generator = random.Random(20)
    files = sorted(path.iterdir())
    assert len(files) == 5
    for attempt in range(600):
        file = files[attempt % len(files)]
        good = file.read_bytes()
        bad = bytearray(good)
        if attempt % 3 == 0:
            del bad[generator.randrange(len(bad)) :]
        elif attempt % 3 == 1:
            bad[generator.randrange(len(bad))] ^= 1 << generator.randrange(8)
        else:
            bad += generator.randbytes(generator.randrange(1, 9))
        file.write_bytes(bad)
        skipped = []
        assert is_step(store.load_latest(skipped.append), 1), (file, attempt)
        assert len(skipped) == 1 and str(path) in skipped[0]
        assert len(store.verify(path)) == 1
        file.write_bytes(good)
    assert is_step(store.load_latest(), 2)


def every_bit_of(raw):
    for place in range(len(raw)):
        for bit in range(8):
            yield raw[:place] + bytes([raw[place] ^ 1 << bit]) + raw[place + 1 :]


def test_no_single_bit_of_a_manifest_is_without_meaning(store):
    path = save(store, 1)
    file = path / "manifest.json"
    for bad in every_bit_of(file.read_bytes()):
        file.write_bytes(bad)
        assert store.verify(path)


def calls_of(tmp_path, name, work):
    """How many calls `work` makes that change the disk."""
    layer = InterruptedOs()
    prepare(tmp_path / name)
    work(CheckpointStore(tmp_path / name, keep_last=1, os_layer=layer))
    return layer.log


def prepare(directory):
    store = CheckpointStore(directory, keep_last=1, os_layer=Unsynced())
    save(store, 1)
    store.mark_best(1, 1.0)


def save_and_mark(store):
    save(store, 2)
    store.mark_best(2, 0.5)


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO, Killed])
@pytest.mark.parametrize("torn", [False, True])
def test_a_save_interrupted_at_any_call_leaves_the_old_or_the_new(tmp_path, fault, torn):
    num_calls = len(calls_of(tmp_path, "counted", save_and_mark))
    assert num_calls > 40
    seen = set()
    for fail_at in range(num_calls):
        directory = tmp_path / str(fail_at)
        prepare(directory)
        warnings = []
        layer = InterruptedOs(fail_at, fault, torn)
        store = CheckpointStore(directory, keep_last=1, os_layer=layer, warn=warnings.append)
        try:
            save_and_mark(store)
            assert warnings
        except Killed:
            assert fault is Killed
        except CheckpointError as error:
            assert os.strerror(fault) in str(error) and str(directory) in str(error)
            assert not list(directory.glob(".tmp-[0-9]*")) or layer.log[fail_at][0] in (
                "unlink",
                "rmdir",
            )
        # A new process with a healthy disk.
        fresh = CheckpointStore(directory, keep_last=1, os_layer=Unsynced())
        skipped = []
        found = fresh.load_latest(skipped.append)
        assert not skipped and (is_step(found, 1) or is_step(found, 2))
        best = fresh.load_best(skipped.append)
        assert not skipped and best_value(best) in (1.0, 0.5)
        assert is_step(best, 1 if best_value(best) == 1.0 else 2)
        seen.add((found.step, best.step))
        fresh.remove_leftovers()
        assert not [path for path in directory.iterdir() if path.name.startswith(".")]
        save_and_mark(fresh)
        assert is_step(fresh.load_latest(), 2) and is_step(fresh.load_best(), 2)
        shutil.rmtree(directory)
    assert seen == {(1, 1), (2, 1), (2, 2)}


def test_the_very_first_save_interrupted_at_any_call_leaves_none_or_all(tmp_path):
    layer = InterruptedOs()
    save(CheckpointStore(tmp_path / "counted" / "deep", os_layer=layer), 1)
    for fail_at in range(len(layer.log)):
        directory = tmp_path / str(fail_at) / "deep"
        with pytest.raises(Killed):
            save(CheckpointStore(directory, os_layer=InterruptedOs(fail_at, Killed)), 1)
        found = CheckpointStore(directory).load_latest()
        assert found is None or is_step(found, 1)


def test_everything_is_on_disk_before_the_rename_and_the_rename_after_it(tmp_path):
    log = calls_of(tmp_path, "store", lambda store: save(store, 2))
    opened, unsynced, renamed = set(), set(), False
    current = None  # the store has one file open at a time
    for name, *arguments in log:
        if name == "open":
            current = str(arguments[0])
            opened.add(current)
            if arguments[1] & os.O_WRONLY:
                unsynced.add(current)
                unsynced.add(os.path.dirname(current))
        elif name == "write":
            unsynced.add(current)
        elif name == "fsync":
            unsynced.discard(current)
        elif name == "rename" and not renamed:
            assert not unsynced, f"renamed before {unsynced} were on disk"
            renamed = True
            unsynced.add(os.path.dirname(str(arguments[1])))
        elif name == "rename":
            assert not unsynced, "the old one was removed before the new one was durable"
    assert renamed and len([path for path in opened if "/.tmp-" in path]) == 5


def test_leftovers_of_dead_processes_are_removed_and_those_of_living_ones_are_not(store):
    save(store, 1)
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          stdout=subprocess.PIPE, check=True)  # fmt: skip
    gone = store.directory / f".tmp-2-{int(dead.stdout)}"
    alive = store.directory / f".tmp-3-{os.getppid()}"
    mine_from_another_life = store.directory / f".tmp-4-{os.getpid()}"
    for path in (gone, alive, mine_from_another_life):
        path.mkdir()
        (path / "weights.safetensors").write_bytes(b"half")
    store.remove_leftovers()
    assert [path.exists() for path in (gone, alive, mine_from_another_life)] == [False, True, False]
    assert is_step(store.load_latest(), 1)


def test_a_reader_is_not_disturbed_when_training_removes_what_it_reads(store, monkeypatch):
    save(store, 1)
    real, done = CheckpointStore._candidates, []

    def candidates_then_prune(self):
        found = real(self)
        if not done:
            done.append(True)
            for step in (2, 3, 4):
                save(store, step)
        return found

    monkeypatch.setattr(CheckpointStore, "_candidates", candidates_then_prune)
    skipped = []
    assert is_step(CheckpointStore(store.directory).load_latest(skipped.append), 4)
    assert skipped == []


def test_a_folder_that_may_not_be_written_is_named_with_a_remedy(store):
    save(store, 1)
    locked = CheckpointStore(store.directory, os_layer=InterruptedOs(0, errno.EACCES))
    with pytest.raises(CheckpointError, match="Permission denied, EACCES.*right to write"):
        save(locked, 2)
    assert is_step(store.load_latest(), 1)


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(CheckpointError, match="checkpoints.*Not a directory"):
        save(CheckpointStore(tmp_path / "checkpoints"), 1)
