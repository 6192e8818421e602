"""The two sockets: messages get through, garbage does no harm, an endpoint has one owner."""

import dataclasses
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import zmq

from shared.errors import ConfigError, ProtocolError
from shared.stream import codec, messages
from shared.stream.array_block import ArrayBlock
from shared.stream.batch_memory import BatchMemory
from shared.stream.sockets import ClientSocket, ServerSocket

DEADLINE_S = 60.0


@pytest.fixture
def context():
    context = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def endpoint(tmp_path):
    tmp_path.chmod(0o700)
    return f"ipc://{tmp_path}/s"


@pytest.fixture
def server(context, endpoint):
    server = ServerSocket(endpoint, "run", context)
    yield server
    server.close()


@pytest.fixture
def client(context, server):
    client = ClientSocket(server.endpoint, "run", context)
    yield client
    client.close()


def receive(end, count=1):
    """The next `count` messages, waited for."""
    found = []
    until_s = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < until_s, f"only {len(found)} of {count} messages came"
        end.socket.poll(100)
        found += end.receive_waiting()
    return found


def raw_dealer(context, endpoint):
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.LINGER, 0)
    dealer.sndhwm = 0  # it never waits for the other side
    dealer.connect(endpoint)
    return dealer


def batch(number=0, size=1000):
    arrays = {"mel": np.arange(size, dtype=np.float32), "lengths": np.ones(3, np.int32)}
    return messages.BatchReady(number, 0, {"decode": 1.0}, 0.5, arrays)


def test_a_batch_goes_over_and_an_order_comes_back(server, client):
    client.session = "given"
    client.send(batch(5))
    ((peer, envelope),) = receive(server)
    assert (envelope.run, envelope.session, envelope.sequence) == ("run", "given", 1)
    assert envelope.message.batch == 5
    np.testing.assert_array_equal(envelope.message.arrays["mel"], np.arange(1000))
    assert server.send(peer, messages.MakeBatch(6, 0))
    (answer,) = receive(client)
    assert answer.message == messages.MakeBatch(6, 0)
    assert answer.session == server.session


def test_a_large_batch_arrives_intact_and_outlives_the_socket(server, client):
    client.send(batch(size=2_000_000))
    ((_, envelope),) = receive(server)
    server.close()
    np.testing.assert_array_equal(envelope.message.arrays["mel"][-3:], [1999997, 1999998, 1999999])


def test_what_one_peer_sends_stays_in_order(server, client):
    for number in range(50):
        client.send(batch(number))
    numbers = [envelope.message.batch for _, envelope in receive(server, 50)]
    assert numbers == list(range(50))


def test_a_worker_may_connect_before_the_model_process_listens(context, endpoint):
    client = ClientSocket(endpoint, "run", context)
    client.send(messages.Goodbye("early"))
    server = ServerSocket(endpoint, "run", context)
    ((_, envelope),) = receive(server)
    assert envelope.message == messages.Goodbye("early")
    client.close()
    server.close()


def test_each_session_is_new(context, endpoint):
    first = ServerSocket(endpoint, "run", context)
    first.close()
    second = ServerSocket(endpoint, "run", context)
    second.close()
    assert first.session != second.session


def test_a_message_to_a_peer_that_is_gone_is_not_sent(server, client):
    assert not server.send(b"nobody", messages.Introduce())
    client.send(messages.Goodbye(""))
    ((peer, _),) = receive(server)
    client.close()
    until_s = time.monotonic() + DEADLINE_S
    while server.send(peer, messages.Introduce()):
        assert time.monotonic() < until_s
        server.socket.poll(20)


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"", b""],
        [b"GET / HTTP/1.1\r\n\r\n"],
        [os.urandom(100_000)],
        [b"x"] * 1000,
        [b"\x91" * 1010 + b"\x01"],
    ],
    ids=["empty", "empty twice", "HTTP", "random", "1000 frames", "nested"],
)
def test_garbage_is_an_error_that_names_its_sender_and_nothing_more(
    context, server, client, frames
):
    dealer = raw_dealer(context, server.endpoint)
    dealer.send_multipart(frames)
    ((peer, error),) = receive(server)
    assert isinstance(error, ProtocolError)
    assert server.send(peer, messages.Refused(str(error)))
    assert dealer.poll(DEADLINE_S * 1000)
    assert codec.decode(dealer.recv_multipart()).message == messages.Refused(str(error))
    client.send(batch(1))
    ((_, envelope),) = receive(server)
    assert envelope.message.batch == 1


def test_garbage_from_the_model_process_s_side_does_not_crash_the_worker(context, endpoint):
    router = context.socket(zmq.ROUTER)
    router.bind(endpoint)
    client = ClientSocket(endpoint, "run", context)
    client.send(messages.Goodbye(""))
    identity, *_ = router.recv_multipart()
    router.send_multipart([identity, b"garbage", b"more"])
    (error,) = receive(client)
    assert isinstance(error, ProtocolError)
    client.close()


def test_bytes_that_are_not_zeromq_do_no_harm(server, client):
    raw = socket.socket(socket.AF_UNIX)
    raw.connect(server.endpoint.removeprefix("ipc://"))
    raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + os.urandom(1000))
    silent = socket.socket(socket.AF_UNIX)
    silent.connect(server.endpoint.removeprefix("ipc://"))
    client.send(batch(3))
    until_s, understood = time.monotonic() + DEADLINE_S, []
    while not understood:  # a very old version of ZeroMQ's protocol could have begun like this
        assert time.monotonic() < until_s
        understood = [e for _, e in receive(server) if not isinstance(e, ProtocolError)]
    assert understood[0].message.batch == 3
    raw.close()
    silent.close()


def test_a_flood_does_not_keep_the_receiver_from_its_other_work(context, server):
    dealer = raw_dealer(context, server.endpoint)
    for _ in range(2000):
        dealer.send(b"x")
    until_s = time.monotonic() + DEADLINE_S
    largest = total = 0
    while total < 2000:
        assert time.monotonic() < until_s
        server.socket.poll(100)
        count = len(list(server.receive_waiting()))
        largest, total = max(largest, count), total + count
    assert largest <= 256


def test_a_live_endpoint_is_not_stolen(context, server, client):
    with pytest.raises(ConfigError, match="another run is listening there"):
        ServerSocket(server.endpoint, "run", context)
    client.send(batch(4))
    assert receive(server)[0][1].message.batch == 4


def test_a_live_endpoint_is_not_stolen_by_another_process(server):
    program = (
        "import sys\n"
        "from shared.errors import ConfigError\n"
        "from shared.stream.sockets import ServerSocket\n"
        "try:\n"
        "    ServerSocket(sys.argv[1], 'run')\n"
        "except ConfigError as error:\n"
        "    print(error)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, server.endpoint],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "another run is listening there" in found.stdout


def test_a_stale_socket_file_does_not_block_the_next_start(context, endpoint):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(endpoint.removeprefix("ipc://"))
    server = ServerSocket(endpoint, "run", context)
    server.close()


def test_a_port_that_is_taken_is_a_sentence(context):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        choose = r"Choose another --endpoint \(--listen and --connect for workers started by hand"
        with pytest.raises(ConfigError, match=f"can't listen there.*{choose}"):
            ServerSocket(endpoint, "run", context)


def test_an_endpoint_can_be_listened_on_again_as_soon_as_it_is_closed(context, tmp_path):
    tmp_path.chmod(0o700)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for endpoint in (f"tcp://127.0.0.1:{port}", f"ipc://{tmp_path}/s"):
        for _ in range(30):
            ServerSocket(endpoint, "run", context).close()


def test_it_works_over_tcp_on_loopback(context):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ServerSocket(f"tcp://127.0.0.1:{port}", "run", context)
    client = ClientSocket(server.endpoint, "run", context)
    client.send(batch(9))
    assert receive(server)[0][1].message.batch == 9
    client.close()
    server.close()


def test_closed_sockets_leave_nothing_that_their_context_waits_for(tmp_path):
    context = zmq.Context()
    endpoint = f"ipc://{tmp_path}/private/stream"
    server = ServerSocket(endpoint, "run", context)
    client = ClientSocket(endpoint, "run", context)
    client.send(batch(1))
    receive(server)
    client.close()
    server.close()
    context.term()


HELLO = messages.Hello("data_worker-0", 1, "index", "plan", "cpu", "2.21.0", 8)
LAYOUT = {"mel": ("<f4", (100_000,)), "rows": ("<i4", (3,))}


@pytest.fixture
def sharing_client(context, server):
    client = ClientSocket(
        server.endpoint, "run", context,
        make_memory=lambda: BatchMemory(ArrayBlock.num_bytes(LAYOUT), 2),
    )  # fmt: skip
    yield client
    client.close()


def introduce(server, client):
    """Let the client in, with its memory; its identity."""
    client.send(HELLO)
    ((peer, envelope),) = receive(server)
    return let_in(server, client, peer, envelope)


def introduce_to_another(server, client):
    """The same with a server that has taken another's place.

    What is sent before the client has noticed that may go to the one before: it is sent again.
    """
    until_s = time.monotonic() + DEADLINE_S
    received = []
    while not received:
        assert time.monotonic() < until_s, "the client was never heard"
        client.send(HELLO)
        server.socket.poll(500)
        received = list(server.receive_waiting())
    return let_in(server, client, *received[0])


def let_in(server, client, peer, envelope):
    memory = server.share_memory_with_sender(envelope.message)
    assert server.send(peer, messages.Welcome("data_worker-0", memory))
    (welcome,) = receive(client)
    client.session = welcome.session
    return peer


def batch_in_memory(client, number=0, value=1.0):
    arrays = ArrayBlock(LAYOUT, client.take_memory)
    arrays["mel"].fill(value)
    return messages.BatchReady(number, 0, {}, 0.5, arrays)


def next_batch(server):
    """The next batch that comes, whatever else was sent before it."""
    while True:
        for _, envelope in receive(server):
            if isinstance(envelope.message, messages.BatchReady):
                return envelope


def test_a_batch_on_the_same_host_is_not_copied(server, sharing_client):
    introduce(server, sharing_client)
    sent = batch_in_memory(sharing_client, 3)
    sharing_client.send(sent)
    ((_, envelope),) = receive(server)
    assert envelope.message.batch == 3
    found = envelope.message.arrays["mel"]
    np.testing.assert_array_equal(found, np.ones(100_000))
    sent.arrays["mel"][5] = 2.0  # never done; only to see that it is the same memory
    assert found[5] == 2.0
    assert not found.flags.writeable


def test_more_batches_than_slots_go_through_the_socket(server, sharing_client):
    introduce(server, sharing_client)
    for number in range(5):
        sharing_client.send(batch_in_memory(sharing_client, number, number))
    found = [envelope.message for _, envelope in receive(server, 5)]
    assert [message.arrays["mel"][-1] for message in found] == [0, 1, 2, 3, 4]


def test_slots_are_used_again_and_again(server, sharing_client):
    introduce(server, sharing_client)
    for number in range(50):
        in_memory = batch_in_memory(sharing_client, number, number)
        assert in_memory.arrays.block.base is not None, "it is not in the shared memory"
        sharing_client.send(in_memory)
        del in_memory
        ((_, envelope),) = receive(server)
        assert envelope.message.arrays["mel"][-1] == number
        del envelope


def test_before_it_is_welcome_a_worker_sends_its_batches_through_the_socket(server, sharing_client):
    sharing_client.send(batch_in_memory(sharing_client, 3))
    ((_, envelope),) = receive(server)
    np.testing.assert_array_equal(envelope.message.arrays["mel"], np.ones(100_000))


def test_memory_that_can_t_be_mapped_is_not_shared(server, sharing_client):
    sharing_client.send(HELLO)
    ((_, envelope),) = receive(server)
    for changes in ({"memory_descriptor": 10_000}, {"memory_slot_bytes": 3}, {"memory": ""}):
        hello = dataclasses.replace(envelope.message, **{"memory": "another", **changes})
        assert server.share_memory_with_sender(hello) == ""
    assert server.share_memory_with_sender(envelope.message) == envelope.message.memory


def test_over_tcp_no_memory_is_shared(context):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ServerSocket(f"tcp://127.0.0.1:{port}", "run", context)
    client = ClientSocket(server.endpoint, "run", context, make_memory=lambda: BatchMemory(1, 1))
    client.send(HELLO)
    ((_, envelope),) = receive(server)
    assert envelope.message.memory == ""
    forged = dataclasses.replace(HELLO, memory="mine", memory_descriptor=3)
    assert server.share_memory_with_sender(forged) == ""
    client.close()
    server.close()


def test_a_new_session_leaves_the_old_one_s_batches_alone(context, endpoint):
    first = ServerSocket(endpoint, "run", context)
    client = ClientSocket(
        endpoint, "run", context,
        make_memory=lambda: BatchMemory(ArrayBlock.num_bytes(LAYOUT), 2),
    )  # fmt: skip
    introduce(first, client)
    client.send(batch_in_memory(client, 1, 1.0))
    ((_, old),) = receive(first)
    first.close()
    second = ServerSocket(endpoint, "run", context)
    introduce_to_another(second, client)
    introduce_to_another(second, client)  # with the new memory
    for number in range(2, 6):
        client.send(batch_in_memory(client, number, number))
        envelope = next_batch(second)
        assert envelope.message.arrays["mel"][0] == number
        del envelope
    np.testing.assert_array_equal(old.message.arrays["mel"], np.ones(100_000))
    client.close()
    second.close()


def test_a_batch_of_another_session_does_no_harm_whatever_memory_it_speaks_of(
    server, sharing_client
):
    introduce(server, sharing_client)
    session, sharing_client.session = sharing_client.session, "of-one-before"
    sent = batch_in_memory(sharing_client, 3)
    sharing_client.send(sent)
    sharing_client._memory._marks[:] = 0  # as in other memory, which has its place by now
    ((_, envelope),) = receive(server)
    assert envelope.message.batch == 3 and envelope.message.arrays == {}
    sharing_client.session = session
    sharing_client.send(batch_in_memory(sharing_client, 4, 4.0))
    ((_, envelope),) = receive(server)
    assert envelope.message.arrays["mel"][0] == 4.0


def test_a_batch_of_one_who_is_not_known_any_more_comes_without_its_arrays(server, sharing_client):
    peer = introduce(server, sharing_client)
    server.forget(peer)
    sharing_client.send(batch_in_memory(sharing_client, 3))
    ((_, envelope),) = receive(server)
    assert envelope.message.batch == 3
    assert envelope.message.arrays == {}


def test_one_who_must_introduce_itself_again_uses_other_memory(server, sharing_client):
    peer = introduce(server, sharing_client)
    sharing_client.send(batch_in_memory(sharing_client, 3))
    ((_, held),) = receive(server)
    server.send(peer, messages.Introduce())
    receive(sharing_client)
    again = batch_in_memory(sharing_client, 4, 4.0)
    assert not np.shares_memory(again.arrays.block, held.message.arrays["mel"])
    introduce(server, sharing_client)
    sharing_client.send(again)
    ((_, envelope),) = receive(server)
    assert envelope.message.arrays["mel"][0] == 4.0
    assert held.message.arrays["mel"][0] == 1.0
