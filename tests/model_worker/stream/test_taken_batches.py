"""Batches that are taken: the receiving thread hears of them in time, and not for each by itself."""

import select

import pytest

from model_worker.stream.taken_batches import TakenBatches


@pytest.fixture
def taken():
    taken = TakenBatches(limit=16)
    yield taken
    taken.close()


def is_woken(taken):
    return bool(select.select([taken.wake_fd], [], [], 0)[0])


def test_one_is_told_at_once_where_the_queue_is_half_empty(taken):
    taken.add(num_received=9)
    assert is_woken(taken) and taken.due() == 1 and taken.count == 0


def test_where_there_are_batches_enough_a_quarter_of_them_is_told_at_once(taken):
    for number in range(3):
        taken.add(num_received=16)
        assert not is_woken(taken), number
    taken.add(num_received=16)
    assert is_woken(taken) and taken.due() == 4


def test_workers_that_have_enough_to_do_are_not_hurried(taken):
    taken.workers_run_low = False
    for _ in range(3):
        taken.add(num_received=1)
    assert not is_woken(taken) and taken.due() == 0
    taken.add(num_received=1)
    assert not is_woken(taken) and taken.due() == 4
