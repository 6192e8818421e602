"""The pool: what crashes or hangs costs one item, what is our own mistake ends it."""

import importlib
import signal
import sys
import textwrap

import pytest

from data_worker.preparation.crash_proof_pool import CarefulPool, Crashed

FAULTY = """
    import os, signal, time

    def task(item):
        if item == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if item == "hang":
            time.sleep(3600)
        if item == "once" and not os.path.exists(MARK):
            open(MARK, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        if item == "raise":
            raise ValueError("a mistake of ours")
        return item * 2
"""


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    """A task that crashes, hangs or is killed, depending on its item, in a module of its own."""
    folder = tmp_path / "faulty"
    folder.mkdir()
    source = f"MARK = {str(tmp_path / 'mark')!r}\n" + textwrap.dedent(FAULTY)
    (folder / "faulty_task_of_the_pool.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "faulty_task_of_the_pool", raising=False)
    return importlib.import_module("faulty_task_of_the_pool").task


def test_an_item_that_crashes_its_process_costs_only_itself(faulty):
    items = [f"{n}" for n in range(60)]
    items[7], items[41] = "crash", "crash"
    counts = []
    with CarefulPool(2) as pool:
        results = pool.map(faulty, items, 8, counts.append)
    crashed = Crashed("looking at it crashes the process (SIGSEGV)", -signal.SIGSEGV)
    assert results[7] == results[41] == crashed
    assert [r for n, r in enumerate(results) if n not in (7, 41)] == [
        item * 2 for item in items if item != "crash"
    ]
    assert counts == sorted(counts) and counts[-1] == 60


def test_a_random_kill_convicts_nobody(faulty):
    items = ["a", "once", "b", "c"]
    with CarefulPool(1) as pool:
        assert pool.map(faulty, items, 2) == ["aa", "onceonce", "bb", "cc"]


def test_an_item_that_hangs_costs_only_itself(faulty):
    with CarefulPool(2, stall_s=2.0, alone_s=2.0) as pool:
        results = pool.map(faulty, ["a", "hang", "b"], 1)
    assert results == ["aa", Crashed("looking at it took more than 2 s"), "bb"]


def test_a_mistake_of_the_program_is_not_hidden(faulty):
    with pytest.raises(ValueError, match="a mistake of ours"), CarefulPool(1) as pool:
        pool.map(faulty, ["raise"])
