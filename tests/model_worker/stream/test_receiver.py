"""The receiving thread in this process, with data processes played by hand on real sockets."""

import contextlib
import dataclasses
import threading
import time

import numpy as np
import pytest
import zmq

from model_worker.stream import admission
from model_worker.stream import members as members_module
from model_worker.stream import peers as peers_module
from model_worker.stream import receiver as receiver_module
from model_worker.stream.admission import Expected
from model_worker.stream.batch_queue import StreamEnded
from model_worker.stream.receiver import Receiver
from model_worker.stream.ticket_ledger import TicketLedger
from shared.errors import ProtocolError, TandemError
from shared.plan.exclusions import Exclusions
from shared.plan.plan import FILLER, Plan
from shared.speech.batch import FORM
from shared.stream import codec, messages
from shared.stream.array_block import ArrayBlock
from shared.stream.batch_memory import BatchMemory
from shared.stream.sockets import ClientSocket, ServerSocket

DEADLINE_S = 20.0
NUM_ROWS = 24


def make_plan(total_train_batches=40):
    frames = np.arange(20, 20 + NUM_ROWS)
    return Plan(
        {"num_frames": frames, "num_symbols": frames // 4}, np.zeros(NUM_ROWS, int),
        np.zeros(NUM_ROWS, int), FORM, batch_size=4, seed=1, max_buckets=2, total_train_batches=total_train_batches,
    )  # fmt: skip


class Peer:
    """A data process by hand: remembers what it was asked for."""

    def __init__(self, context, endpoint, name="data_worker-0", run="run", **changes):
        self.plan = make_plan()
        largest = max(ArrayBlock.num_bytes(shape.arrays()) for shape in self.plan.buckets)
        self.socket = ClientSocket(
            endpoint, run, context, make_memory=lambda: BatchMemory(largest, 4)
        )
        fields = {
            "worker": name, "pid": 1, "index_fingerprint": "index",
            "plan_fingerprint": self.plan.fingerprint(), "device_kind": "fake",
            "tensorflow": "2.21.0", "capacity": 8,
        }  # fmt: skip
        self.hello = messages.Hello(**{**fields, **changes})
        self.tickets: list[messages.MakeBatch] = []
        self.exclusions = Exclusions()
        self.others: list[messages.Message] = []

    def join(self):
        self.socket.send(self.hello)
        self.wait_for(messages.Welcome)
        return self

    def look(self, timeout_ms=0):
        self.socket.socket.poll(timeout_ms)
        for received in self.socket.receive_waiting():
            assert not isinstance(received, ProtocolError)
            self.socket.session = received.session
            message = received.message
            if isinstance(message, messages.MakeBatch):
                self.tickets.append(message)
            elif isinstance(message, messages.Exclude):
                known = self.exclusions.at_version(message.version).to_json()
                self.exclusions = Exclusions.from_json([*known, *message.entries])
            else:
                self.others.append(message)

    def wait_until(self, condition, what):
        until_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < until_s, f"{what} did not come: {self.others}, {self.tickets}"
            self.look(50)

    def wait_for(self, kind):
        def found():
            return [message for message in self.others if isinstance(message, kind)]

        self.wait_until(found, kind.__name__)
        message = found()[0]
        self.others.remove(message)
        return message

    def wait_for_tickets(self, count):
        self.wait_until(lambda: len(self.tickets) >= count, f"{count} tickets")
        return [ticket.batch for ticket in self.tickets]

    def batch(self, number, version=0):
        """What a data process would make: here each row is its own number."""
        planned = self.plan.batch(number, self.exclusions.at_version(version))
        arrays = ArrayBlock(planned.shape.arrays(), self.socket.take_memory)
        arrays.block.fill(0)
        arrays["rows"][:] = planned.rows
        return messages.BatchReady(number, version, {"decode": 1.0}, 0.5, arrays)

    def answer(self, ticket=None):
        ticket = ticket or self.tickets[0]
        self.tickets.remove(ticket)
        self.socket.send(self.batch(ticket.batch, ticket.exclusions_version))

    def close(self):
        self.socket.close()


class Setup:
    """One receiver and its peers."""

    def __init__(self, context, endpoint, limit=4, first_batch=0, recipe=None, **ledger_settings):
        self.context = context
        self.plan = make_plan()
        self.written: list[tuple[int, int, str]] = []
        self.fail_on_exclusion: Exception | None = None
        end = self.plan.layout.num_stream_batches
        self.ledger = TicketLedger(
            limit, 1 << 30, self.plan.nbytes, first_batch, end, **ledger_settings
        )
        expected = Expected(
            "run", "index", self.plan.fingerprint(), "fake", NUM_ROWS, recipe=recipe
        )
        self.server = ServerSocket(endpoint, "run", context)
        self.receiver = Receiver(
            self.server, self.plan, self.ledger, expected, Exclusions(), self.write_down
        )
        self.receiver.start()
        self.stopped = False
        self.peers: list[Peer] = []

    def write_down(self, row, from_batch, reason):
        if self.fail_on_exclusion:
            raise self.fail_on_exclusion
        self.written.append((row, from_batch, reason))

    def peer(self, name="data_worker-0", **changes):
        self.peers.append(Peer(self.context, self.server.endpoint, name, **changes))
        return self.peers[-1]

    def take(self):
        batch = self.receiver.queue.get()
        self.receiver.taken()
        return batch

    def stop(self, reason):
        if not self.stopped:
            self.stopped = True
            self.receiver.stop(reason)

    def close(self):
        self.stop("the test is over")
        for peer in self.peers:
            peer.close()


@pytest.fixture
def start(tmp_path):
    tmp_path.chmod(0o700)
    context = zmq.Context()
    with contextlib.ExitStack() as stack:
        stack.callback(context.destroy, linger=0)

        def begin(**settings):
            setup = Setup(context, f"ipc://{tmp_path}/s", **settings)
            stack.callback(setup.close)
            return setup

        yield begin


def test_a_worker_that_shows_the_same_run_is_let_in_and_gets_tickets(start):
    setup = start()
    peer = setup.peer().join()
    assert peer.wait_for_tickets(4) == [0, 1, 2, 3]
    assert peer.socket.session == setup.server.session
    assert setup.receiver.num_workers == 1
    assert setup.receiver.first_worker_s <= time.monotonic()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run": "other"}, "this model process serves another run. Give both workers the same"),
        ({"index_fingerprint": "x"}, "the index differs from the model process's. Copy the run"),
        ({"plan_fingerprint": "x"}, "the settings differ from the model process's. Copy the run's"),
        ({"device_kind": "cpu"}, "it computes on the CPU, but this run's data processes on a fake"),
        ({"name": "\x1b[2J"}, "its name is not one of 1 to 128 printable characters"),
        ({"name": "x" * 129}, "its name is not one of 1 to 128 printable characters"),
        ({"name": ""}, "its name is not one of 1 to 128 printable characters"),
    ],
)
def test_a_worker_of_something_else_is_refused_with_the_reason(start, changes, reason):
    setup = start()
    peer = setup.peer(**changes)
    peer.socket.send(peer.hello)
    assert peer.wait_for(messages.Refused).reason.startswith(reason)
    assert setup.receiver.num_workers == 0
    assert setup.peer("good").join().wait_for_tickets(4) == [0, 1, 2, 3]
    assert peer.tickets == []


@pytest.mark.parametrize(
    ("found", "expected", "words", "remedy"),
    [
        ("cpu", "gpu", ("the CPU", "a GPU"), "Start it with --gpu N."),
        ("gpu", "cpu", ("a GPU", "the CPU"), "Start it without --gpu, with this run's config."),
        ("fake", "cpu", ("a fake GPU", "the CPU"), "Start it without --gpu, with this run's"),
        ("cpu", "fake", ("the CPU", "a fake GPU"), "Copy the run's config.toml again."),
        ("gpu", "fake", ("a GPU", "a fake GPU"), "Copy the run's config.toml again."),
        ("fake", "gpu", ("a fake GPU", "a GPU"), "Copy the run's config.toml again."),
        ("tpu", "gpu", ("tpu", "a GPU"), "Start it with --gpu N."),
    ],
)
def test_another_kind_of_device_is_named_with_its_remedy(found, expected, words, remedy):
    said = admission._other_device(found, expected)
    assert said.startswith(
        f"it computes on {words[0]}, but this run's data processes on {words[1]}, which would make "
        f"other batches. {remedy}"
    )


RECIPE = {"task": "speech", "numpy": "2.0"}


def test_a_worker_that_makes_its_features_in_the_same_way_is_let_in(start):
    setup = start(recipe=RECIPE)
    setup.peer(recipe=dict(reversed(RECIPE.items()))).join()
    assert setup.receiver.num_workers == 1


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ({**RECIPE, "numpy": "1.9"}, "numpy: 1.9 there, 2.0 in this run). Make that the same, or"),
        ({"task": "speech"}, "numpy: nothing there, 2.0 in this run)."),
        ({**RECIPE, "soxr": "0.5"}, "soxr: 0.5 there, nothing in this run)."),
        ({**RECIPE, "a" * 250: "b" * 250}, f"{'a' * 40}: {'b' * 40} there, nothing in"),
        ({**RECIPE, "\x1b[2J": "\x07"}, "?[2J: ? there, nothing in this run)."),
    ],
    ids=["other", "less", "more", "long", "unprintable"],
)
def test_a_worker_that_makes_its_features_in_another_way_is_refused(start, recipe, reason):
    setup = start(recipe=RECIPE)
    peer = setup.peer(recipe=recipe)
    peer.socket.send(peer.hello)
    said = peer.wait_for(messages.Refused).reason
    assert said.startswith(f"it would make other batches than this run ({reason}")
    assert setup.receiver.num_workers == 0
    setup.peer("data_worker-1", recipe=RECIPE).join()
    assert setup.receiver.num_workers == 1


def test_more_data_processes_than_anyone_has_are_refused(start, monkeypatch):
    monkeypatch.setattr(members_module, "_MAX_PEERS", 2)
    setup = start()
    for name in ("one", "two"):
        setup.peer(name).join()
    third = setup.peer("three")
    third.socket.send(third.hello)
    assert "2 data processes already" in third.wait_for(messages.Refused).reason
    setup.peer("two", pid=2).join()  # a replacement needs no place of its own


@pytest.mark.parametrize("frames", [[b"garbage"], [b""], [b"\x80", b"x"], [b"\xc1"] * 50])
def test_a_peer_that_floods_is_hung_up_on_and_the_others_do_not_notice(start, frames):
    setup = start()
    good = setup.peer("good").join()
    hostile = setup.peer("hostile")
    for _ in range(2000):
        hostile.socket.socket.send_multipart(frames)
    assert good.wait_for_tickets(4) == [0, 1, 2, 3]
    for number in range(20):
        good.wait_for_tickets(1)
        good.answer()
        assert setup.take().index == number
    good.wait_until(lambda: setup.receiver.refused["hung up on"], "the end of the flood")
    assert setup.receiver.num_workers == 1


def test_a_replacement_gets_in_while_strangers_flood(start):
    setup = start()
    hostile = [setup.peer("hostile", run="other") for _ in range(20)]
    for each in hostile:
        for _ in range(100):
            each.socket.send(each.hello)
    hostile[0].wait_until(lambda: setup.receiver.refused["hung up on"] > 10, "the flood")
    assert setup.peer("good").join().wait_for_tickets(4) == [0, 1, 2, 3]


def test_introductions_that_piled_up_while_there_was_no_model_process_are_borne(start):
    setup = start()
    patient = setup.peer()
    for _ in range(2000):
        patient.socket.send(patient.hello)
    patient.socket.send(messages.Goodbye(""))  # of no session: answered when all were handled
    patient.wait_for(messages.Introduce)
    assert patient.wait_for_tickets(4) == [0, 1, 2, 3]
    assert not setup.receiver.refused["hung up on"]


def test_words_from_outside_can_not_write_on_the_terminal(start):
    setup = start(limit=1)
    peer = setup.peer().join()
    peer.wait_for_tickets(1)
    row = int(setup.plan.batch(0).rows[0])
    peer.tickets.clear()
    peer.socket.send(messages.CannotRead(0, row, "gone\x1b]0;x\x07\nnext"))
    peer.wait_for_tickets(1)
    assert setup.written == [(row, 0, "gone?]0;x??next")]


def test_an_unknown_session_is_asked_to_introduce_itself(start):
    setup = start()
    peer = setup.peer()
    peer.socket.session = "of an earlier model process"
    peer.socket.send(peer.batch(0))
    peer.wait_for(messages.Introduce)
    peer.join()
    peer.socket.session = "of an earlier model process"
    peer.socket.send(peer.batch(0))
    peer.wait_until(lambda: setup.receiver.refused["unknown session"] == 2, "the second refusal")
    assert setup.ledger.num_received == 0


def test_memory_that_was_lost_with_a_connection_is_not_waited_for(start):
    setup = start()
    peer = setup.peer().join()
    peer.wait_for_tickets(4)
    nowhere, zmq_socket = setup.server.endpoint + "-nowhere", peer.socket.socket
    zmq_socket.connect(nowhere)
    zmq_socket.disconnect(setup.server.endpoint)
    for _ in range(4):  # as many as there is memory for
        peer.answer()
    assert peer.socket.take_memory(1) is None
    zmq_socket.connect(setup.server.endpoint)
    zmq_socket.disconnect(nowhere)
    peer.join()
    peer.wait_for(messages.Introduce)
    assert peer.socket.take_memory(1) is not None
    peer.join()
    assert peer.wait_for_tickets(4) == [0, 1, 2, 3]
    for _ in range(4):
        peer.answer()
    assert [setup.take().index for _ in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize("can_map_again", [True, False])
def test_batches_in_memory_that_is_not_mapped_any_more_are_asked_for_again(
    start, monkeypatch, can_map_again
):
    setup = start()
    peer = setup.peer().join()
    peer.wait_for_tickets(4)
    if not can_map_again:
        monkeypatch.setattr(ServerSocket, "_map_memory", lambda *_: None)
    (identity,) = setup.receiver._members.peers
    setup.server.forget(identity)
    # As a data process does that has not heard of it yet: batches, its Hello, and more batches.
    for ticket in peer.tickets[:2]:
        peer.socket.send(peer.batch(ticket.batch))
    peer.socket.send(peer.hello)
    for ticket in peer.tickets[2:]:
        peer.socket.send(peer.batch(ticket.batch))
    peer.tickets.clear()
    peer.wait_for(messages.Introduce)
    peer.join()
    peer.wait_until(lambda: {t.batch for t in peer.tickets} >= {0, 1}, "the tickets")
    peer.look(50)
    for ticket in list(peer.tickets):
        peer.answer(ticket)
    assert [setup.take().index for _ in range(4)] == [0, 1, 2, 3]
    assert not [message for message in peer.others if isinstance(message, messages.Refused)]
    assert setup.receiver.num_workers == 1


def test_a_peer_that_never_sends_arrays_is_refused_in_the_end(start, monkeypatch):
    monkeypatch.setattr(peers_module, "_MAX_UNMAPPED", 3)
    setup = start(limit=1)
    peer = setup.peer().join()
    for _ in range(3):
        peer.wait_for_tickets(1)
        peer.tickets.clear()
        peer.socket.send(dataclasses.replace(peer.batch(0), arrays={}))
        peer.wait_for(messages.Introduce)
        peer.socket.send(peer.hello)
    peer.wait_for_tickets(1)
    peer.socket.send(dataclasses.replace(peer.batch(0), arrays={}))
    assert "does not have the arrays" in peer.wait_for(messages.Refused).reason
    assert setup.receiver.num_workers == 0


def test_batches_come_out_in_order_however_they_came_in(start):
    setup = start()
    peer = setup.peer().join()
    peer.wait_for_tickets(4)
    for ticket in reversed(list(peer.tickets)):
        peer.answer(ticket)
    taken = [setup.take() for _ in range(4)]
    assert [batch.index for batch in taken] == [0, 1, 2, 3]
    for batch in taken:
        np.testing.assert_array_equal(batch.arrays["rows"], setup.plan.batch(batch.index).rows)
    assert peer.wait_for_tickets(4) == [4, 5, 6, 7]


def test_a_replay_is_dropped_and_counted(start):
    setup = start()
    peer = setup.peer().join()
    peer.wait_for_tickets(4)
    for ticket in (*peer.tickets, *peer.tickets, *peer.tickets):
        peer.socket.send(peer.batch(ticket.batch))
    peer.socket.send(peer.batch(30))
    for number in range(4):
        assert setup.take().index == number
    assert peer.wait_for_tickets(8)[4:] == [4, 5, 6, 7]
    peer.wait_until(lambda: setup.ledger.dropped.total() == 9, "the last replay")
    assert setup.ledger.dropped == {"duplicate": 8, "not asked for": 1}


def test_a_replacement_gets_the_tickets_of_the_one_it_replaces_at_once(start, monkeypatch, caplog):
    monkeypatch.setattr(receiver_module, "_PING_EVERY_S", 1000.0)  # it is not waited for
    setup = start()
    first = setup.peer().join()
    first.wait_for_tickets(4)
    first.answer()
    (dead,), send = setup.receiver._members.peers, setup.server.send
    setup.server.send = lambda peer, message: peer != dead and send(peer, message)
    second = setup.peer(pid=2).join()
    assert second.wait_for_tickets(3) == [1, 2, 3]
    assert "data process data_worker-0 (pid 1) left: replaced by pid 2" in caplog.text
    for _ in range(3):
        second.answer()
    assert [setup.take().index for _ in range(4)] == [0, 1, 2, 3]
    assert setup.receiver.num_workers == 1


def test_a_process_whose_connection_broke_takes_its_own_place(start):
    setup = start()
    before = setup.peer().join()
    before.wait_for_tickets(4)
    after = setup.peer()
    after.socket._sequence = before.socket._sequence  # one process counts on
    assert after.join().wait_for_tickets(4) == [0, 1, 2, 3]
    assert setup.receiver.num_workers == 1


@pytest.mark.parametrize("pid", [1, 2], ids=["of two hosts with one pid", "of one host"])
@pytest.mark.parametrize("num_sent_before", [0, 50])
def test_two_that_live_under_one_name_do_not_throw_each_other_out(
    start, caplog, pid, num_sent_before
):
    setup = start(limit=4)
    peers = [setup.peer("one name").join(), setup.peer("one name", pid=pid)]
    peers[1].socket._sequence = num_sent_before
    peers[1].join()
    for _ in range(10):
        for peer in peers:
            peer.socket.send(peer.hello)
            peer.socket.send(messages.MakeBatch(0, 0))  # answered after the Hello was handled
            peer.wait_for(messages.Refused)
    assert setup.receiver.num_workers == 2
    assert caplog.text.count("left: replaced by") <= 1, "at first it may seem to be the same one"
    assert "two data processes are called one name (pids" in caplog.text
    at_work, indices = set(), []
    consumer = threading.Thread(
        target=lambda: indices.extend(setup.take().index for _ in range(12)), daemon=True
    )
    consumer.start()
    until_s = time.monotonic() + DEADLINE_S
    while consumer.is_alive():
        assert time.monotonic() < until_s
        for number, peer in enumerate(peers):
            peer.look(2)
            while peer.tickets:
                peer.answer()
                at_work.add(number)
    assert indices == list(range(12)) and at_work == {0, 1}


def test_the_tickets_of_a_worker_that_says_goodbye_go_to_another(start):
    setup = start()
    first, second = setup.peer("one").join(), setup.peer("two").join()
    assert first.wait_for_tickets(4) == [0, 1, 2, 3]
    first.socket.send(messages.Goodbye("stopped"))
    assert second.wait_for_tickets(4) == [0, 1, 2, 3]


def test_the_tickets_of_a_worker_whose_connection_is_gone_go_to_another(start):
    setup = start()
    first = setup.peer("one").join()
    first.wait_for_tickets(4)
    first.close()
    assert setup.peer("two").join().wait_for_tickets(4) == [0, 1, 2, 3]


def test_a_restarted_model_process_begins_where_it_is_told(start):
    peer = start(first_batch=17).peer().join()
    assert peer.wait_for_tickets(4) == [17, 18, 19, 20]


def test_an_utterance_that_can_not_be_read_is_written_down_and_its_batches_made_without_it(start):
    setup = start(limit=7)  # seven batches of an epoch's six: one row is in two of them
    peer = setup.peer().join()
    peer.wait_for_tickets(7)
    row = int(next(r for r in setup.plan.batch(6).rows if r != FILLER))
    affected = [n for n in range(7) if setup.plan.contains(n, row)]
    first = affected[0]
    (ticket,) = [t for t in peer.tickets if t.batch == first]
    peer.tickets.clear()
    peer.socket.send(messages.CannotRead(first, row, "it is gone"))
    peer.wait_for_tickets(len(affected))
    assert setup.written == [(row, first, "it is gone")]
    assert peer.exclusions == Exclusions(((row, first),))
    assert [(t.batch, t.exclusions_version) for t in peer.tickets] == [(n, 1) for n in affected]
    # What was made before the exclusion does not count any more.
    peer.socket.send(peer.batch(ticket.batch, version=0))
    for n in range(7):
        peer.socket.send(peer.batch(n, version=1 if n in affected else 0))
    taken = [setup.take() for _ in range(7)]
    assert [batch.index for batch in taken] == list(range(7))
    for batch in taken:
        if batch.index in affected:
            assert row not in batch.arrays["rows"]
    assert setup.ledger.dropped["made with an example that is excluded"] == 1


def test_a_worker_that_joins_later_learns_the_exclusions_with_its_first_ticket(start):
    setup = start(limit=2)
    first = setup.peer("one").join()
    first.wait_for_tickets(2)
    row = int(setup.plan.batch(0).rows[0])
    first.tickets.clear()
    first.socket.send(messages.CannotRead(0, row, "it is gone"))
    first.wait_for_tickets(1)
    first.socket.send(messages.Goodbye("stopped"))
    second = setup.peer("two").join()
    second.wait_for_tickets(2)
    assert second.exclusions == Exclusions(((row, 0),))


def test_an_utterance_reported_twice_is_written_down_once(start):
    setup = start(limit=1)
    peer = setup.peer().join()
    peer.wait_for_tickets(1)
    row = int(setup.plan.batch(0).rows[0])
    for expected in (1, 2):
        peer.socket.send(messages.CannotRead(0, row, "it is gone"))
        peer.wait_for_tickets(1 + expected)
    assert [t.exclusions_version for t in peer.tickets] == [0, 1, 1]
    assert len(setup.written) == 1


def test_a_late_complaint_about_a_batch_that_another_has_made_changes_nothing(start):
    setup = start(limit=1, hedge_after_s=0.0)
    first, second = setup.peer("one").join(), setup.peer("two").join()
    first.wait_for_tickets(1)
    second.wait_for_tickets(1)
    second.answer()
    held = setup.receiver.queue.get()  # read ahead, as the copy to the device does
    first.socket.send(messages.CannotRead(0, int(held.arrays["rows"][0]), "too late"))
    first.socket.send(messages.MakeBatch(0, 0))  # answered after the complaint was handled
    first.wait_for(messages.Refused)
    assert setup.written == []
    setup.receiver.taken()
    first.wait_until(lambda: setup.ledger.next_batch == 1, "the next batch")


def test_a_complaint_that_comes_too_late_ends_the_trial_of_a_late_worker(start):
    setup = start(limit=1, hedge_after_s=0.0)
    late, other = setup.peer("one").join(), setup.peer("two").join()
    late.wait_for_tickets(1)
    other.wait_for_tickets(1)
    other.answer()
    assert setup.take().index == 0
    other.wait_for_tickets(1)
    late.tickets.clear()
    late.socket.send(messages.CannotRead(0, int(setup.plan.batch(0).rows[0]), "too late"))
    assert late.wait_for_tickets(1) == [1], "it is tried again"


def test_a_complaint_about_an_utterance_that_is_not_in_the_batch_excludes_nothing(start):
    setup = start(limit=1)
    peer = setup.peer().join()
    peer.wait_for_tickets(1)
    row = next(r for r in range(NUM_ROWS) if not setup.plan.contains(0, r))
    peer.socket.send(messages.CannotRead(0, row, "a lie"))
    peer.wait_for_tickets(2)
    peer.socket.send(messages.CannotRead(0, 10**9, "a greater lie"))
    peer.socket.send(messages.CannotRead(30, 1, "about a batch of nobody"))
    peer.answer()
    assert setup.take().index == 0
    assert setup.written == []


def test_tickets_that_were_taken_back_are_forgotten(start):
    setup = start(limit=2)
    first = setup.peer("first").join()
    assert first.wait_for_tickets(2) == [0, 1]
    second = setup.peer("second").join()
    first.socket.send(messages.CannotRead(0, int(setup.plan.batch(0).rows[0]), "gone"))
    assert second.wait_for_tickets(1) == [0]
    second.wait_until(lambda: second.exclusions.version, "the exclusion")
    second.answer()
    first.answer(first.tickets[1])
    assert [setup.take().index for _ in range(2)] == [0, 1]

    def oldest_asked():
        known = list(setup.receiver._members.peers.values())
        return min((number for each in known for number in list(each.asked_s)), default=2)

    first.wait_until(lambda: oldest_asked() >= 2, "the end of what was taken back")
    assert setup.receiver.num_workers == 2  # and not because someone had left


def test_too_many_bad_utterances_reach_the_training_loop_as_the_error_they_are(start):
    setup = start()
    setup.fail_on_exclusion = TandemError("too many")
    peer = setup.peer().join()
    peer.wait_for_tickets(4)
    assert not setup.receiver.has_ended
    peer.socket.send(messages.CannotRead(0, int(setup.plan.batch(0).rows[0]), "gone"))
    with pytest.raises(TandemError, match="too many"):
        setup.receiver.queue.get()
    assert setup.receiver.has_ended


def test_a_batch_of_other_arrays_than_planned_is_refused_and_its_sender_forgotten(start):
    setup = start()
    bad = setup.peer("bad").join()
    bad.wait_for_tickets(4)
    right = bad.batch(0)
    arrays = {**right.arrays, "mel": right.arrays["mel"][:, 1:]}
    bad.socket.send(dataclasses.replace(right, arrays=arrays))
    assert "batch 0 does not have the arrays that the plan says" in (
        bad.wait_for(messages.Refused).reason
    )
    assert setup.peer("good").join().wait_for_tickets(4) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "frames",
    [[b"garbage"], [b""], [b"x"] * 100, [b"\x91" * 1010 + b"\x01"], [b"\xc7\x00\x05"]],
    ids=["garbage", "empty", "100 frames", "nested", "ext"],
)
def test_garbage_is_refused_and_the_others_are_served_on(start, frames):
    setup = start()
    good = setup.peer("good").join()
    good.wait_for_tickets(4)
    stranger = setup.context.socket(zmq.DEALER)
    stranger.connect(setup.server.endpoint)
    for _ in range(50):
        stranger.send_multipart(frames)
    assert stranger.poll(DEADLINE_S * 1000)
    assert isinstance(codec.decode(stranger.recv_multipart()).message, messages.Refused)
    for _ in range(4):
        good.answer()
    assert [setup.take().index for _ in range(4)] == [0, 1, 2, 3]
    stranger.close(0)


def test_an_order_sent_to_the_model_process_is_refused(start):
    peer = start().peer().join()
    peer.socket.send(messages.MakeBatch(1, 0))
    assert peer.wait_for(messages.Refused).reason == "MakeBatch is not for the model process."


def test_tickets_and_batches_held_never_exceed_the_limit_while_nobody_takes(start):
    """Watched from outside: what two workers were asked for, whether they have sent it or not."""
    limit = 5
    setup = start(limit=limit)
    peers = [setup.peer("one").join(), setup.peer("two").join()]
    asked: set[int] = set()
    taken = 0

    def watch():
        for peer in peers:
            peer.look(5)
            for ticket in list(peer.tickets):
                asked.add(ticket.batch)
                peer.answer(ticket)
        assert len(asked) <= taken + limit
        assert setup.receiver.num_in_flight <= limit

    until_s = time.monotonic() + DEADLINE_S
    while setup.receiver.queue_depth < limit:
        assert time.monotonic() < until_s
        watch()
    for _ in range(50):  # everything is answered and nobody takes: nothing more may be asked for
        watch()
    assert asked == set(range(limit))
    for _ in range(12):  # a slow consumer gives out one place at a time
        assert setup.take().index == taken
        taken += 1
        until_s = time.monotonic() + DEADLINE_S
        while len(asked) < taken + limit:
            assert time.monotonic() < until_s
            watch()
    assert asked == set(range(limit + 12))


def test_the_whole_stream_comes_once_and_in_order_from_three_workers_of_which_two_leave(start):
    setup = start(limit=6)
    peers = [setup.peer(name).join() for name in ("one", "two", "three")]
    end, indices = setup.plan.layout.num_stream_batches, []
    consumer = threading.Thread(
        target=lambda: indices.extend(setup.take().index for _ in range(end)), daemon=True
    )
    consumer.start()
    num_answers, until_s = 0, time.monotonic() + DEADLINE_S
    while consumer.is_alive():
        assert time.monotonic() < until_s
        for peer in peers:
            peer.look(2)
            while peer.tickets:
                peer.answer(peer.tickets[-1])
                num_answers += 1
        if num_answers > 10 * (4 - len(peers)) and len(peers) > 1:
            peers.pop().close()
    assert indices == list(range(end))


def test_the_end_is_told_to_every_worker_and_to_the_training_loop(start):
    setup = start()
    peer = setup.peer().join()
    setup.stop("finished")
    assert peer.wait_for(messages.StopProducing).reason == "finished"
    with pytest.raises(StreamEnded):
        setup.receiver.queue.get()


def test_without_a_reason_the_workers_are_left_for_the_next_session(start):
    setup = start()
    peer = setup.peer().join()
    peer.wait_for_tickets(4)
    setup.stop("")
    successor = start(first_batch=2)
    peer.tickets.clear()
    until_s = time.monotonic() + DEADLINE_S
    while not peer.tickets:
        assert time.monotonic() < until_s
        peer.socket.send(peer.hello)
        peer.look(100)
    assert peer.wait_for_tickets(4) == [2, 3, 4, 5]
    assert peer.socket.session == successor.server.session
    assert not [m for m in peer.others if isinstance(m, messages.StopProducing)]


def test_a_model_process_without_data_processes_says_that_it_waits(start, monkeypatch, caplog):
    monkeypatch.setattr(members_module, "_WAITING_SAID_EVERY_S", 0.1)
    caplog.set_level("INFO")
    setup = start()
    until_s = time.monotonic() + DEADLINE_S
    while f"waiting for a data process at {setup.server.endpoint}" not in caplog.text:
        assert time.monotonic() < until_s
        threading.Event().wait(0.01)


class StuckDisk:
    """Writing an exclusion down waits until it is let go."""

    def __init__(self, setup):
        self.entered, self.release = threading.Event(), threading.Event()
        setup.receiver._on_exclusion = self
        peer = setup.peer().join()
        peer.wait_for_tickets(1)
        peer.socket.send(messages.CannotRead(0, int(setup.plan.batch(0).rows[0]), "gone"))
        assert self.entered.wait(DEADLINE_S)

    def __call__(self, row, from_batch, reason):
        self.entered.set()
        assert self.release.wait(DEADLINE_S)


def test_a_stop_waits_for_a_slow_disk_so_that_the_next_session_finds_the_endpoint_free(start):
    setup = start()
    disk, thread = StuckDisk(setup), setup.receiver._thread
    join = thread.join
    thread.join = lambda timeout: join(timeout / 100)  # the same story, a hundred times as fast
    stopping = threading.Thread(target=setup.stop, args=("",), daemon=True)
    stopping.start()
    stopping.join(0.2)
    assert stopping.is_alive()
    disk.release.set()
    stopping.join(DEADLINE_S)
    assert not stopping.is_alive() and not thread.is_alive()
    start()


def test_the_turns_of_the_thread_show_whether_it_is_stuck(start):
    setup = start()
    peer = setup.peer("other").join()

    def has_turned_since(count):
        return lambda: setup.receiver.num_turns > count

    for _ in range(3):  # also while nothing happens
        peer.wait_until(has_turned_since(setup.receiver.num_turns), "a turn")
    disk = StuckDisk(setup)
    stuck_at = setup.receiver.num_turns
    assert not disk.release.wait(0.3)  # three times as long as a turn
    assert setup.receiver.num_turns == stuck_at
    disk.release.set()
    peer.wait_until(has_turned_since(stuck_at), "a turn")
