"""The ticket ledger: its rules one by one, then any order of anything."""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from model_worker.stream.ledger_events import (
    Accept,
    BatchArrived,
    BatchSuspended,
    BatchTaken,
    ClockTicked,
    Drop,
    DropReason,
    ExampleExcluded,
    FailureDropped,
    Issue,
    Recall,
    WorkerJoined,
    WorkerLeft,
)
from model_worker.stream.ticket_ledger import TicketLedger

A, B, C = b"a", b"b", b"c"
EXCLUDED = DropReason.EXCLUDED


def make_ledger(limit=4, byte_budget=1000, nbytes=1, **settings):
    return TicketLedger(limit, byte_budget, lambda batch: nbytes, **settings)


def issued(actions):
    return [(action.worker, action.batch) for action in actions if isinstance(action, Issue)]


def held_by(ledger, worker):
    """How many tickets a worker holds."""
    return sum(ledger.is_held_by(worker, batch) for batch in ledger.in_flight())


def num_late(ledger):
    """How many workers have kept the head waiting, and not been in time since."""
    return len(ledger._trials)


def test_nothing_is_asked_for_while_nobody_is_there():
    ledger = make_ledger()
    assert ledger.handle(ClockTicked(1.0)) == []
    assert ledger.num_in_flight == 0


def test_a_worker_that_joins_gets_tickets_up_to_the_limit_lowest_first():
    ledger = make_ledger(limit=3, first_batch=10)
    assert issued(ledger.handle(WorkerJoined(A, 8))) == [(A, 10), (A, 11), (A, 12)]


def test_a_worker_gets_no_more_than_its_capacity():
    ledger = make_ledger(limit=8)
    assert len(issued(ledger.handle(WorkerJoined(A, 2)))) == 2
    assert len(issued(ledger.handle(WorkerJoined(B, 0)))) == 1


def test_a_second_worker_gets_its_share():
    ledger = make_ledger(limit=6)
    ledger.handle(WorkerJoined(A, 8))
    assert ledger.handle(WorkerJoined(B, 8)) == []
    for batch in range(6):
        ledger.handle(BatchArrived(A, batch, 0))
    for _ in range(6):
        ledger.handle(BatchTaken())
    assert held_by(ledger, A) == held_by(ledger, B) == 3


def test_tickets_end_with_the_stream():
    ledger = make_ledger(limit=10, end_batch=2)
    assert issued(ledger.handle(WorkerJoined(A, 8))) == [(A, 0), (A, 1)]


def test_a_batch_that_was_taken_makes_room_for_one_ticket():
    ledger = make_ledger(limit=2)
    ledger.handle(WorkerJoined(A, 8))
    assert ledger.handle(BatchArrived(A, 0, 0)) == [Accept(0)]
    assert issued(ledger.handle(BatchTaken())) == [(A, 2)]


def test_what_an_earlier_session_asked_for_is_made_again_with_the_exclusions_of_this_one():
    ledger = make_ledger(limit=1, exclusions_version=3)
    ledger.handle(WorkerJoined(A, 8))
    assert ledger.handle(BatchArrived(A, 0, 2)) == [Drop(0, EXCLUDED), Issue(A, 0)]
    assert ledger.handle(BatchArrived(A, 0, 3)) == [Accept(0)]


def test_batches_that_arrive_out_of_order_are_kept_for_their_turn():
    ledger = make_ledger(limit=2)
    ledger.handle(WorkerJoined(A, 8))
    assert ledger.handle(BatchArrived(A, 1, 0)) == [Accept(1)]
    with pytest.raises(ValueError, match="batch 0 was taken before it arrived"):
        ledger.handle(BatchTaken())
    ledger.handle(BatchArrived(A, 0, 0))
    ledger.handle(BatchTaken())
    ledger.handle(BatchTaken())
    assert ledger.next_batch == 2


def test_a_duplicate_is_dropped_and_counted():
    ledger = make_ledger()
    ledger.handle(WorkerJoined(A, 8))
    ledger.handle(BatchArrived(A, 0, 0))
    assert ledger.handle(BatchArrived(A, 0, 0)) == [Drop(0, DropReason.DUPLICATE)]
    ledger.handle(BatchTaken())
    assert ledger.handle(BatchArrived(A, 0, 0)) == [Drop(0, DropReason.DUPLICATE)]
    assert ledger.dropped == {"duplicate": 2}


def test_what_nobody_asked_for_is_dropped_and_counted():
    ledger = make_ledger(limit=2)
    ledger.handle(WorkerJoined(A, 8))
    ledger.handle(WorkerJoined(B, 8))
    assert ledger.handle(BatchArrived(A, 2**53, 0)) == [Drop(2**53, DropReason.NOT_ASKED_FOR)]
    assert ledger.handle(BatchArrived(B, 0, 0)) == [Drop(0, DropReason.NOT_ASKED_FOR)]
    assert ledger.handle(BatchArrived(b"stranger", 1, 0)) == [Drop(1, DropReason.NOT_ASKED_FOR)]
    assert ledger.num_received == 0


def test_the_tickets_of_a_worker_that_left_go_to_another():
    ledger = make_ledger(limit=2)
    ledger.handle(WorkerJoined(A, 8))
    ledger.handle(BatchArrived(A, 1, 0))
    assert ledger.handle(WorkerLeft(A)) == []
    assert issued(ledger.handle(WorkerJoined(B, 8))) == [(B, 0)]
    assert ledger.handle(BatchArrived(A, 0, 0)) == [Drop(0, DropReason.NOT_ASKED_FOR)]
    assert ledger.handle(BatchArrived(B, 0, 0)) == [Accept(0)]


def test_tickets_that_were_given_back_are_issued_again_lowest_first():
    ledger = make_ledger(limit=3)
    ledger.handle(WorkerJoined(A, 8))
    ledger.handle(WorkerLeft(A))
    assert issued(ledger.handle(WorkerJoined(B, 2))) == [(B, 0), (B, 1)]
    assert issued(ledger.handle(BatchArrived(B, 1, 0))) == [(B, 2)]


def test_a_byte_budget_bounds_what_is_asked_for():
    ledger = make_ledger(limit=10, byte_budget=25, nbytes=10)
    assert len(issued(ledger.handle(WorkerJoined(A, 8)))) == 2
    assert ledger.bytes_in_flight == 20


def test_one_batch_is_admitted_whatever_its_size():
    ledger = make_ledger(limit=10, byte_budget=5, nbytes=10)
    assert issued(ledger.handle(WorkerJoined(A, 8))) == [(A, 0)]
    ledger.handle(BatchArrived(A, 0, 0))
    assert issued(ledger.handle(BatchTaken())) == [(A, 1)]


def test_an_exclusion_has_the_affected_batches_made_again():
    ledger = make_ledger(limit=3)
    ledger.handle(WorkerJoined(A, 8))
    ledger.handle(BatchArrived(A, 1, 0))
    actions = ledger.handle(ExampleExcluded(1, frozenset({0, 1})))
    assert actions[0] == Recall(1)
    assert issued(actions) == [(A, 0), (A, 1)]
    assert ledger.handle(BatchArrived(A, 0, 0))[0] == Drop(0, EXCLUDED)
    assert ledger.handle(BatchArrived(A, 0, 1)) == [Accept(0)]
    assert ledger.handle(BatchArrived(A, 2, 0)) == [Accept(2)]


def test_an_exclusion_counts_for_batches_that_are_not_asked_for_yet():
    ledger = make_ledger(limit=1)
    ledger.handle(WorkerJoined(A, 8))
    ledger.handle(ExampleExcluded(3, frozenset({1})))
    ledger.handle(BatchArrived(A, 0, 0))
    assert issued(ledger.handle(BatchTaken())) == [(A, 1)]
    assert ledger.handle(BatchArrived(A, 1, 2))[0] == Drop(1, EXCLUDED)


def test_an_exclusion_does_not_touch_what_is_trained():
    ledger = make_ledger(limit=2)
    ledger.handle(WorkerJoined(A, 8))
    ledger.handle(BatchArrived(A, 0, 0))
    ledger.handle(BatchTaken())
    assert ledger.handle(ExampleExcluded(1, frozenset({0}))) == []


def test_a_head_that_keeps_everyone_waiting_is_asked_of_a_second_worker_too():
    ledger = make_ledger(limit=4, hedge_after_s=5.0)
    ledger.handle(WorkerJoined(A, 1))
    ledger.handle(WorkerJoined(B, 2))
    assert ledger.handle(ClockTicked(1000.0)) == []
    assert ledger.handle(ClockTicked(1004.9)) == []
    assert ledger.handle(BatchArrived(B, 1, 0)) == [Accept(1), Issue(B, 3)]
    assert ledger.handle(ClockTicked(1005.0)) == []
    assert ledger.handle(BatchArrived(B, 2, 0)) == [Accept(2), Issue(B, 0)]
    assert ledger.handle(BatchArrived(B, 0, 0))[0] == Accept(0)
    assert ledger.handle(BatchArrived(A, 0, 0))[0] == Drop(0, DropReason.DUPLICATE)


def test_an_overdue_head_comes_before_anything_new():
    ledger = make_ledger(limit=10, hedge_after_s=5.0)
    ledger.handle(WorkerJoined(A, 1))
    ledger.handle(WorkerJoined(B, 1))
    ledger.handle(ClockTicked(1.0))
    ledger.handle(ClockTicked(7.0))
    assert ledger.handle(BatchArrived(B, 1, 0)) == [Accept(1), Issue(B, 0)]


def test_the_wait_for_the_head_begins_with_its_ticket():
    ledger = make_ledger(limit=2, hedge_after_s=5.0)
    ledger.handle(ClockTicked(1.0))
    ledger.handle(ClockTicked(900.0))
    ledger.handle(WorkerJoined(A, 1))
    ledger.handle(WorkerJoined(B, 2))
    assert ledger.handle(ClockTicked(1000.0)) == []
    ledger.handle(WorkerLeft(A))
    ledger.handle(WorkerJoined(A, 2))
    assert ledger.handle(ClockTicked(1004.9)) == []
    assert ledger.handle(ClockTicked(1009.0)) == []


def test_a_head_that_nobody_can_help_with_waits():
    ledger = make_ledger(limit=1)
    ledger.handle(WorkerJoined(A, 1))
    ledger.handle(ClockTicked(1.0))
    assert ledger.handle(ClockTicked(1000.0)) == []


def late_ledger(limit=8):
    """A has kept the head waiting, and B, who works, has made everything else."""
    ledger = make_ledger(limit=limit, hedge_after_s=5.0)
    ledger.handle(WorkerJoined(A, 8))
    ledger.handle(WorkerJoined(B, 8))
    for batch in range(limit):
        ledger.handle(BatchArrived(A, batch, 0))
    for _ in range(limit):
        ledger.handle(BatchTaken())
    assert held_by(ledger, A) == held_by(ledger, B) == limit // 2
    ledger.handle(ClockTicked(100.0))
    for batch in ledger.in_flight():
        if ledger.is_held_by(B, batch):
            ledger.handle(BatchArrived(B, batch, 0))
    return ledger, ledger.handle(ClockTicked(105.0))


def test_all_tickets_of_a_worker_that_is_late_go_to_others_at_once():
    ledger, actions = late_ledger()
    head = ledger.next_batch
    assert {worker for worker, _ in issued(actions)} == {B}
    assert len(issued(actions)) == 4, "the head, and the three others that A had"
    assert ledger.is_held_by(A, head) and held_by(ledger, A) == 1
    assert num_late(ledger) == 1


def test_a_worker_that_is_late_gets_nothing_until_it_has_answered():
    ledger, actions = late_ledger()
    for _ in range(30):
        for _, batch in issued(actions):
            actions = ledger.handle(BatchArrived(B, batch, 0))
        actions = ledger.handle(BatchTaken()) + actions
        assert {worker for worker, _ in issued(actions)} <= {B}


def test_a_worker_that_was_late_is_tried_with_a_copy_and_trusted_when_it_is_in_time():
    ledger, _ = late_ledger()
    actions = ledger.handle(BatchArrived(A, ledger.next_batch, 0))
    ((worker, trial),) = issued(actions)
    assert worker == A and ledger.is_held_by(B, trial), "nobody waits for A's answer alone"
    ledger.handle(ClockTicked(112.0))
    actions = ledger.handle(BatchArrived(A, trial, 0))
    assert num_late(ledger) == 1, "that took too long"
    ((worker, trial),) = issued(actions)
    assert worker == A
    ledger.handle(ClockTicked(113.0))
    ledger.handle(BatchArrived(A, trial, 0))
    assert num_late(ledger) == 0


def test_an_utterance_excluded_from_a_trial_ends_it():
    ledger, _ = late_ledger()
    ((_, trial),) = issued(ledger.handle(BatchArrived(A, ledger.next_batch, 0)))
    actions = ledger.handle(ExampleExcluded(1, frozenset({trial})))
    assert A in {worker for worker, _ in issued(actions)}


def test_a_failure_that_is_dropped_ends_the_trial_that_it_answers():
    ledger, _ = late_ledger()
    ((_, trial),) = issued(ledger.handle(BatchArrived(A, ledger.next_batch, 0)))
    ledger.handle(BatchArrived(B, trial, 0))
    assert issued(ledger.handle(FailureDropped(A, trial + 1))) == []
    assert issued(ledger.handle(FailureDropped(B, trial))) == []
    ((worker, another),) = issued(ledger.handle(FailureDropped(A, trial)))
    assert worker == A and another != trial
    assert num_late(ledger) == 1, "it has shown nothing"


def test_those_who_are_late_are_better_than_nobody():
    ledger, _ = late_ledger()
    actions = ledger.handle(WorkerLeft(B))
    assert num_late(ledger) == 0
    assert {worker for worker, _ in issued(actions)} == {A}


def test_the_room_of_a_batch_that_is_agreed_on_is_kept_for_it():
    ledger = TicketLedger(limit=4, byte_budget=2, nbytes_of=lambda batch: 1)
    ledger.handle(WorkerJoined(A, 4))
    assert ledger.in_flight() == [0, 1]
    assert issued(ledger.handle(BatchSuspended(0))) == [] and ledger.bytes_in_flight == 2
    assert issued(ledger.handle(ExampleExcluded(1, frozenset({0})))) == [(A, 0)]
    assert ledger.bytes_in_flight == 2


class LedgerMachine(RuleBasedStateMachine):
    """Workers that join, leave, answer, lie and fall silent, and a consumer that reads ahead."""

    WORKERS: tuple[bytes, ...] = (A, B, C)

    @initialize(
        limit=st.integers(1, 6),
        byte_budget=st.integers(1, 40),
        sizes=st.lists(st.integers(1, 12), min_size=1, max_size=5),
        first=st.integers(0, 3),
        length=st.integers(0, 25),
        stride=st.integers(1, 3),
    )
    def begin(self, limit, byte_budget, sizes, first, length, stride):
        self.limit, self.byte_budget = limit, byte_budget
        self.nbytes_of = lambda batch: sizes[batch % len(sizes)]
        self.after = lambda batch: batch + stride  # the numbers between are others'
        self.end = first + length * stride
        self.ledger = TicketLedger(
            limit, byte_budget, self.nbytes_of, first, self.end, 5.0, after=self.after
        )
        self.capacity: dict[bytes, int] = {}
        self.tickets: dict[bytes, list[tuple[int, int]]] = {}  # what each was asked for
        self.version = 0
        self.needed: dict[int, int] = {}  # batch -> exclusions it must be made with
        self.suspended: set[int] = set()
        self.queue: set[int] = set()  # accepted, not read by the consumer
        self.device: list[int] = []  # read ahead, not yet taken
        self.next_read = self.next_taken = first
        self.now_s = 0.0

    def tell(self, event):
        before = {worker: held_by(self.ledger, worker) for worker in self.capacity}
        actions = self.ledger.handle(event)
        for action in actions:
            if isinstance(action, Issue):
                assert action.worker in self.capacity
                assert self.next_taken <= action.batch < self.end
                assert action.batch not in self.suspended
                assert action.batch in range(self.next_taken, self.end, self.after(0))
                self.tickets[action.worker].append((action.batch, self.version))
            elif isinstance(action, Accept):
                assert isinstance(event, BatchArrived)
                assert action.batch == event.batch
                assert action.batch not in self.queue
                assert action.batch >= self.next_read, "accepted a second time"
                assert event.exclusions_version >= self.needed.get(action.batch, 0)
                self.queue.add(action.batch)
            elif not isinstance(event, BatchArrived):
                assert action.batch in self.queue, "dropped what the consumer has already read"
                self.queue.discard(action.batch)
        share = max(1, math.ceil(self.limit / max(1, len(self.capacity) - num_late(self.ledger))))
        for worker in {action.worker for action in actions if isinstance(action, Issue)}:
            held = held_by(self.ledger, worker)
            assert held <= min(self.capacity[worker], share) or held <= before.get(worker, 0)
        return actions

    @rule(worker=st.sampled_from(WORKERS), capacity=st.integers(0, 4))
    def join(self, worker, capacity):
        if worker not in self.capacity:
            self.capacity[worker] = max(1, capacity)
            self.tickets[worker] = []
            self.tell(WorkerJoined(worker, capacity))

    @rule(worker=st.sampled_from(WORKERS))
    def leave(self, worker):
        self.capacity.pop(worker, None)
        self.tickets.pop(worker, None)
        self.tell(WorkerLeft(worker))

    @precondition(lambda self: any(self.tickets.values()))
    @rule(data=st.data(), keep=st.booleans())
    def answer(self, data, keep):
        worker = data.draw(st.sampled_from([w for w in self.WORKERS if self.tickets.get(w)]))
        ticket = data.draw(st.sampled_from(self.tickets[worker]))
        if not keep:  # else the same answer can come again
            self.tickets[worker].remove(ticket)
        self.tell(BatchArrived(worker, *ticket))

    @rule(
        worker=st.sampled_from([*WORKERS, b"stranger"]),
        batch=st.integers(0, 40),
        version=st.integers(0, 9),
    )
    def send_what_nobody_may_have_asked_for(self, worker, batch, version):
        self.tell(BatchArrived(worker, batch, min(version, self.version)))

    @rule(worker=st.sampled_from(WORKERS), batch=st.integers(0, 40))
    def complain_too_late(self, worker, batch):
        if worker in self.capacity and not self.ledger.is_held_by(worker, batch):
            self.tell(FailureDropped(worker, batch))

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def exclude(self, data):
        """As the receiver does: reported by a holder, for its batch and later ones in flight."""
        batch = data.draw(st.sampled_from(self.held()))
        later = [n for n in self.ledger.in_flight() if n > batch] or [batch]
        affected = {batch, *data.draw(st.lists(st.sampled_from(later), max_size=3))}
        affected -= self.suspended
        self.version += 1
        for number in affected:
            self.needed[number] = self.version
        self.tell(ExampleExcluded(self.version, frozenset(affected)))

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def suspend(self, data):
        batch = data.draw(st.sampled_from(self.held()))
        self.suspended.add(batch)
        self.tell(BatchSuspended(batch))
        assert batch not in self.held()

    @precondition(lambda self: self.suspended)
    @rule(data=st.data())
    def agree(self, data):
        """What was suspended can be made, with further exclusions."""
        batch = data.draw(st.sampled_from(sorted(self.suspended)))
        self.suspended.discard(batch)
        self.version += 1
        self.needed[batch] = self.version
        self.tell(ExampleExcluded(self.version, frozenset({batch})))

    def held(self):
        return [
            n for n in self.ledger.in_flight()
            if any(self.ledger.is_held_by(worker, n) for worker in self.capacity)
        ]  # fmt: skip

    @rule()
    def read_ahead(self):
        if self.next_read in self.queue:
            self.queue.discard(self.next_read)
            self.device.append(self.next_read)
            self.next_read = self.after(self.next_read)

    @rule()
    def take(self):
        self.read_ahead()
        if self.device:
            assert self.device.pop(0) == self.next_taken
            self.next_taken = self.after(self.next_taken)
            self.tell(BatchTaken())
            assert self.ledger.next_batch == self.next_taken

    @rule(later_s=st.floats(0, 20))
    def tick(self, later_s):
        self.now_s += later_s
        self.tell(ClockTicked(self.now_s))

    @invariant()
    def in_flight_is_bounded(self):
        if hasattr(self, "ledger"):
            assert self.ledger.num_in_flight <= self.limit
            held = {n: self.nbytes_of(n) for n in self.held()}
            held.update({n: self.nbytes_of(n) for n in [*self.queue, *self.device]})
            held.update({n: self.nbytes_of(n) for n in self.suspended})
            assert self.ledger.num_in_flight == len(held)
            assert self.ledger.bytes_in_flight == sum(held.values())
            assert self.ledger.bytes_in_flight <= self.byte_budget or len(held) <= 1

    def teardown(self):
        """A live worker that answers everything always brings the stream to its end."""
        if not hasattr(self, "ledger"):
            return
        for batch in sorted(self.suspended):
            self.suspended.discard(batch)
            self.version += 1
            self.needed[batch] = self.version
            self.tell(ExampleExcluded(self.version, frozenset({batch})))
        live = b"live"
        self.WORKERS = (*self.WORKERS, live)
        self.join(live, 2)
        for _ in range(300):
            if self.next_taken == self.end:
                break
            for ticket in list(self.tickets[live]):
                self.tickets[live].remove(ticket)
                self.tell(BatchArrived(live, *ticket))
            self.take()
            self.tick(6.0)  # the others may be silent for ever: the head is hedged
        assert self.next_taken == self.end, f"stands at {self.next_taken} of {self.end}"
        assert self.ledger.num_in_flight == 0


LedgerMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestAnyOrderOfAnything = LedgerMachine.TestCase
