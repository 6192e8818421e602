"""What is left out is the same for all replicas, and counts before the batch that found it is made."""

import contextlib

import numpy as np
import pytest
import zmq

from model_worker.replicas.agreement import FirstAgrees, OtherAgrees
from shared.plan.exclusions import Exclusions
from shared.plan.plan import Plan
from shared.task import Array, BatchForm

GRAD_ACCUM, NUM_ROWS, SESSION = 3, 24, 1
FORM = BatchForm({"x": Array("float32", 2)})


def make_plan(total=60):
    zeros = np.zeros(NUM_ROWS, int)
    plan = Plan({}, zeros, zeros, FORM, batch_size=4, seed=1)
    return plan.with_layout(0, total)


class Replicas:
    """Three replicas, as far as this goes, without threads: each looks when it is told to."""

    def __init__(self, folder, stack, total=60):
        folder.chmod(0o700)
        self.context = zmq.Context()
        stack.callback(self.context.destroy, linger=0)
        self.endpoint, self.stack = f"ipc://{folder}/a", stack
        self.plan, self.written = make_plan(total), []
        self.first = FirstAgrees(self.endpoint, 3, self.context)
        stack.callback(self.first.close)
        self.begin(SESSION)

    def begin(self, session, exclusions=Exclusions()):
        write = lambda *entry: self.written.append(entry)  # noqa: E731
        self.first.begin(session, self.plan, GRAD_ACCUM, exclusions, write)

    def other(self, rank, exclusions=Exclusions(), session=SESSION):
        other = OtherAgrees(self.endpoint, session, rank, exclusions, self.context)
        self.stack.callback(other.close)
        return other

    def news(self, replica, count):
        """So much news of one replica, waited for."""
        found = []
        while len(found) < count:
            assert replica.socket.poll(10_000) or replica is self.first, "no news"
            found += replica.news()
        return found


@pytest.fixture
def replicas(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Replicas(tmp_path, stack)


def test_a_batch_is_made_again_when_all_know_what_it_is_made_without(replicas):
    first, one, two = replicas.first, replicas.other(1), replicas.other(2)
    batch = 4  # of step 1
    row = int(replicas.plan.batch(batch).rows[0])
    assert first.socket.poll(10_000)
    list(first.news())
    one.cannot_make(row, batch, "it is gone")
    (told,) = replicas.news(first, 1)
    entries = ((row, 4, 5), (row, 15))  # no replica has begun with step 5 while step 1 is not whole
    assert told.exclusions.entries == entries and told.make_again == []
    assert replicas.written == [(row, 4, "it is gone", 5), (row, 15, "it is gone", None)]
    (learnt,) = replicas.news(one, 1)
    assert learnt.exclusions.entries == entries
    assert first.socket.poll(10_000) and list(first.news()) == []
    assert not one.socket.poll(200), "the other replica does not know yet"
    assert replicas.news(two, 1)[0].exclusions.entries == entries
    assert first.socket.poll(10_000)
    list(first.news())
    (again,) = replicas.news(one, 1)
    assert again.make_again == [batch]


def test_the_first_replica_waits_for_those_that_have_not_joined_yet(replicas):
    first = replicas.first
    row = int(replicas.plan.batch(0).rows[0])
    first.cannot_make(row, 0, "it is gone")
    assert [news.make_again for news in first.news()] == [[]]
    replicas.other(1, Exclusions(((row, 0, 1), (row, 12))))
    late = replicas.other(2)
    found = []
    while not any(news.make_again for news in found):
        assert first.socket.poll(10_000) or late.socket.poll(0)
        list(late.news())
        found += first.news()
    assert found[-1].make_again == [0]


def test_what_is_not_in_a_batch_is_not_left_out(replicas):
    one, two = replicas.other(1), replicas.other(2)
    row = next(r for r in range(NUM_ROWS) if not replicas.plan.contains(1, r))
    one.cannot_make(row, 1, "a lie")
    found = []
    while not any(one.news()):
        replicas.first.socket.poll(100)
        found += replicas.first.news()
    assert replicas.written == [] and two is not None


def test_words_of_an_earlier_session_count_for_nothing(replicas):
    one = replicas.other(1)
    replicas.begin(SESSION + 1)
    one.cannot_make(int(replicas.plan.batch(0).rows[0]), 0, "of before")
    assert replicas.first.socket.poll(10_000)
    assert list(replicas.first.news()) == [] and replicas.written == []


def test_near_the_end_there_is_no_later_step(tmp_path):
    with contextlib.ExitStack() as stack:
        replicas = Replicas(tmp_path, stack, total=12)
        row = int(replicas.plan.batch(0).rows[0])
        replicas.first.cannot_make(row, 0, "it is gone")
        assert [entry[:2] for entry in replicas.written] == [(row, 0)]
