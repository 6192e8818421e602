"""Reader threads: first asked first served, retried where that helps, never silent."""

import threading

import numpy as np
import pytest

from data_worker.batches import readers
from data_worker.batches.readers import ReaderPool, next_reader_count
from shared.errors import ReadError
from shared.worker.decoding_record import ReadingRecord

DEADLINE_S = 60.0


@pytest.fixture
def make_pool():
    pools = []

    def make(load, num_threads=2, **settings):
        settings.setdefault("wait", lambda seconds: None)
        pools.append(ReaderPool(load, num_threads, **settings))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def test_an_utterance_comes_with_what_it_cost(make_pool):
    pool = make_pool(lambda row, fetched: np.full(row, 0.5, np.float32))
    read = pool.read(3).result(DEADLINE_S)
    np.testing.assert_array_equal(read.raw, [0.5, 0.5, 0.5])
    assert read.reading_ms >= 0 and read.decoding_ms >= 0


def test_reading_ends_where_the_file_is_in_memory_and_retries_belong_to_it(make_pool, monkeypatch):
    now_s, tries = [100.0], []
    monkeypatch.setattr(readers.time, "perf_counter", lambda: now_s[0])

    def wait(seconds):
        now_s[0] += seconds

    def load(row, fetched):
        tries.append(row)
        now_s[0] += 0.25
        if len(tries) < 2:
            raise ReadError("storage is asleep", transient=True)
        fetched()
        now_s[0] += 0.5
        return np.zeros(1, np.float32)

    read = make_pool(load, num_threads=1, wait=wait).read(0).result(DEADLINE_S)
    assert read.reading_ms == pytest.approx(1000 * (0.25 + 0.1 + 0.25))
    assert read.decoding_ms == pytest.approx(500)


def test_one_reader_serves_in_the_order_of_asking(make_pool):
    served = []
    pool = make_pool(lambda row, fetched: served.append(row), num_threads=1)
    futures = [pool.read(row) for row in (5, 3, 9, 3)]
    for future in futures:
        future.result(DEADLINE_S)
    assert served == [5, 3, 9, 3]


def test_readers_work_at_the_same_time(make_pool):
    both = threading.Barrier(2, timeout=DEADLINE_S)
    pool = make_pool(lambda row, fetched: both.wait(), num_threads=2)
    futures = [pool.read(0), pool.read(1)]
    for future in futures:
        future.result(DEADLINE_S)


def test_what_is_being_read_is_on_record_until_it_is_read(make_pool):
    record, both = ReadingRecord(), threading.Barrier(3, timeout=DEADLINE_S)

    def load(row, fetched):
        both.wait()  # both are being read
        both.wait()  # and the test has looked
        if row == 4:
            raise ReadError("it is gone")

    pool = make_pool(load, num_threads=2, record=record)
    futures = [pool.read(9), pool.read(4)]
    both.wait()
    assert record.rows() == (4, 9)
    both.wait()
    futures[0].result(DEADLINE_S)
    with pytest.raises(ReadError):
        futures[1].result(DEADLINE_S)
    assert record.rows() == ()


def test_a_transient_error_is_tried_again_after_growing_pauses(make_pool):
    tries, pauses = [], []

    def load(row, fetched):
        tries.append(row)
        if len(tries) < 4:
            raise ReadError("storage is asleep", transient=True)
        return np.zeros(1, np.float32)

    pool = make_pool(load, wait=pauses.append)
    pool.read(7).result(DEADLINE_S)
    assert tries == [7] * 4
    assert pauses == sorted(pauses)
    assert len(pauses) == 3


def test_storage_that_answers_with_errors_is_not_silent(make_pool):
    told = []

    def load(row, fetched):
        raise ReadError("storage is asleep", transient=True)

    pool = make_pool(load, wait=lambda seconds: told.append("pause"),
                     on_progress=lambda: told.append("progress"))  # fmt: skip
    with pytest.raises(ReadError):
        pool.read(7).result(DEADLINE_S)
    assert told[:6] == ["progress", "pause"] * 3


def test_a_transient_error_that_stays_is_given_up_with_its_reason(make_pool):
    tries = []

    def load(row, fetched):
        tries.append(row)
        raise ReadError("storage is gone", transient=True)

    with pytest.raises(ReadError, match="storage is gone"):
        make_pool(load).read(7).result(DEADLINE_S)
    assert len(tries) == 4


def test_what_could_not_be_read_fails_at_once_the_next_time(make_pool, monkeypatch):
    now_s, tries = [100.0], []
    monkeypatch.setattr(readers.time, "monotonic", lambda: now_s[0])

    def load(row, fetched):
        tries.append(row)
        if now_s[0] < 200:
            raise ReadError(f"storage of row {row} is gone", transient=True)
        return np.zeros(1, np.float32)

    pool = make_pool(load, num_threads=1)
    for future in [pool.read(row) for row in (7, 8, 7)]:
        with pytest.raises(ReadError, match="is gone"):
            future.result(DEADLINE_S)
    assert tries == [7] * 4 + [8] * 4
    again = pool.read(8)
    assert again.done() and "row 8" in str(again.exception())
    now_s[0] += readers._REMEMBERED_S  # the mount may be back, and here it is
    pool.read(8).result(DEADLINE_S)
    assert tries[8:] == [8]


def test_a_file_that_is_bad_is_not_tried_again(make_pool):
    tries = []

    def load(row, fetched):
        tries.append(row)
        raise ReadError("can't be decoded")

    with pytest.raises(ReadError, match="can't be decoded"):
        make_pool(load).read(7).result(DEADLINE_S)
    assert tries == [7]


def test_a_bug_in_the_loader_reaches_whoever_asked_and_the_reader_lives_on(make_pool):
    def load(row, fetched):
        return 1 // row

    pool = make_pool(load, num_threads=1)
    failing, working = pool.read(0), pool.read(1)
    with pytest.raises(ZeroDivisionError):
        failing.result(DEADLINE_S)
    assert working.result(DEADLINE_S).raw == 1


def test_every_utterance_counts_as_progress_read_or_not(make_pool):
    progress = threading.Semaphore(0)

    def load(row, fetched):
        if row:
            raise ReadError("bad")

    pool = make_pool(load, on_progress=progress.release)
    pool.read(0)
    pool.read(1)
    assert progress.acquire(timeout=DEADLINE_S)
    assert progress.acquire(timeout=DEADLINE_S)


def test_storage_that_gives_a_long_file_piece_by_piece_is_not_silent(make_pool):
    noted, pieces, go_on = threading.Semaphore(0), 5, threading.Event()

    def load(row, on_piece):
        for _ in range(pieces):
            on_piece()
        assert go_on.wait(DEADLINE_S)

    future = make_pool(load, on_progress=noted.release).read(0)
    for _ in range(pieces):
        assert noted.acquire(timeout=DEADLINE_S)
    assert not future.done()
    go_on.set()
    future.result(DEADLINE_S)


def test_features_that_are_on_disk_are_taken_from_there_by_a_reader(make_pool):
    asked, loaded, progress = [], [], threading.Semaphore(0)
    kept = np.ones((5, 82), np.float32)

    def look_up(row):
        asked.append(threading.current_thread().name)
        return kept if row == 3 else None

    def load(row, fetched):
        loaded.append(row)
        return np.zeros(1, np.float32)

    pool = make_pool(load, look_up=look_up, on_progress=progress.release)
    found, other = pool.read(3).result(DEADLINE_S), pool.read(4).result(DEADLINE_S)
    assert found.features is kept and found.raw is None
    assert other.features is None and other.raw is not None
    assert loaded == [4]
    assert all(name.startswith("reader-") for name in asked)
    assert progress.acquire(timeout=DEADLINE_S) and progress.acquire(timeout=DEADLINE_S)


def test_what_is_no_longer_wanted_is_not_read(make_pool):
    began, go_on, served = threading.Event(), threading.Event(), []

    def load(row, fetched):
        served.append(row)
        began.set()
        assert go_on.wait(DEADLINE_S)

    pool = make_pool(load, num_threads=1)
    first = pool.read(0)
    assert began.wait(DEADLINE_S)
    unwanted, last = pool.read(1), pool.read(2)
    assert unwanted.cancel()
    go_on.set()
    first.result(DEADLINE_S)
    last.result(DEADLINE_S)
    assert served == [0, 2]


def test_the_pool_grows_and_never_shrinks(make_pool):
    pool = make_pool(lambda row, fetched: None, num_threads=1)
    pool.grow_to(3)
    assert pool.num_threads == 3
    pool.grow_to(2)
    assert pool.num_threads == 3


def test_closing_ends_every_thread(make_pool):
    pool = make_pool(lambda row, fetched: None, num_threads=3)
    pool.close()
    for thread in pool._threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("waited_share", "cores_busy", "expected"),
    [
        (0.5, 0.3, 8),  # waiting for storage: its delays can be overlapped
        (0.5, 0.95, 4),  # waiting for the cores: more threads would not help
        (0.1, 0.3, 4),  # not waiting
    ],
)
def test_more_readers_only_where_they_help(waited_share, cores_busy, expected):
    assert next_reader_count(4, 64, waited_share, cores_busy) == expected


def test_the_number_of_readers_has_a_maximum():
    assert next_reader_count(48, 64, 1.0, 0.0) == 64


def test_readers_that_are_all_stuck_are_replaced_whoever_waits(make_pool):
    """Rows that nobody waits for yet hold the readers; what is waited for comes behind them."""
    stuck, go_on, began = {0, 1}, threading.Event(), threading.Semaphore(0)

    def load(row, fetched):
        began.release()
        if row in stuck:
            assert go_on.wait(DEADLINE_S)
        return row

    pool = make_pool(load, num_threads=2)
    held = [pool.read(row) for row in sorted(stuck)]
    wanted = pool.read(2)
    for _ in stuck:
        assert began.acquire(timeout=DEADLINE_S)
    pool.give_up_slow(DEADLINE_S)
    assert not any(future.done() for future in held)  # there is time left
    pool.give_up_slow(0.0)
    for future in held:
        with pytest.raises(ReadError, match="did not come back within 0 s"):
            future.result(0)
    assert wanted.result(DEADLINE_S).raw == 2
    with pytest.raises(ReadError, match="did not come back"):
        pool.read(0).result(0)
    go_on.set()  # what comes too late changes nothing
    assert pool.read(3).result(DEADLINE_S).raw == 3 and pool.num_threads == 2
