"""Connections that are never let in: silent ones, too many of them, and those that break rules."""

import contextlib
import socket
import time

import pytest
import zmq

from shared.stream import connection_limit, messages
from shared.stream import connections as doorway
from shared.stream.sockets import ClientSocket, ServerSocket

DEADLINE_S = 60.0


class Listening:
    """A listening socket, served by hand."""

    def __init__(self):
        self.context = zmq.Context()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.endpoint = f"tcp://127.0.0.1:{self.port}"
        self.server = ServerSocket(self.endpoint, "run", self.context, max_frame_bytes=1 << 20)
        self.received, self.refusals = [], []
        self.raw: list[socket.socket] = []

    def connect(self, timeout_s=DEADLINE_S):
        self.raw.append(socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s))
        return self.raw[-1]

    def until(self, condition, what, hang_up=False):
        """Serve until then; with `hang_up`, on each sender after its first message."""
        poller = zmq.Poller()
        for each in self.server.sockets:
            poller.register(each, zmq.POLLIN)
        until_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < until_s, f"{what}: {self.received}, {self.refusals}"
            poller.poll(20)
            self.refusals += self.server.refused_at_the_door()
            for peer, received in self.server.receive_waiting():
                self.received.append((peer, received))
                if hang_up:
                    self.server.hang_up_on_sender()
                else:
                    self.server.admit_sender()

    def close(self):
        for each in self.raw:
            each.close()
        self.server.close()
        self.context.destroy(linger=0)


@pytest.fixture
def listening():
    with contextlib.closing(Listening()) as listening:
        yield listening


def is_hung_up(connection):
    """Whether the other side has ended it; what it said before is read over."""
    connection.setblocking(False)
    try:
        while connection.recv(4096):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def test_too_many_peers_without_introduction_are_turned_away_oldest_first(listening, monkeypatch):
    monkeypatch.setattr(doorway, "MAX_STRANGERS", 3)
    for number in range(5):
        listening.connect()
        listening.until(lambda n=number: len(listening.refusals) >= max(0, n - 2), "a refusal")
    listening.until(lambda: is_hung_up(listening.raw[1]), "the second to be hung up on")
    assert is_hung_up(listening.raw[0])
    assert not any(is_hung_up(connection) for connection in listening.raw[2:])
    assert "more than 3 peers are connected without introduction" in listening.refusals[0]


def test_a_silent_peer_is_turned_away_and_one_that_introduced_itself_is_not(listening, monkeypatch):
    monkeypatch.setattr(doorway, "STRANGER_S", 0.3)
    client = ClientSocket(listening.endpoint, "run", listening.context)
    client.send(messages.Goodbye("anything"))
    listening.until(lambda: listening.received, "the message")
    listening.connect()
    listening.until(lambda: listening.refusals, "the refusal")
    assert "did not introduce itself within 0.3 s" in listening.refusals[0]
    peer, _ = listening.received[0]
    assert listening.server.send(peer, messages.Introduce())
    assert client.socket.poll(DEADLINE_S * 1000)
    client.close()


def test_a_frame_that_no_batch_can_have_ends_the_connection_and_nothing_else(listening):
    hostile = ClientSocket(listening.endpoint, "run", listening.context)
    hostile.socket.send(bytes(2 << 20))
    good = ClientSocket(listening.endpoint, "run", listening.context)
    good.send(messages.Goodbye("still here"))
    listening.until(lambda: listening.received, "the good one's message")
    assert listening.received[0][1].message.reason == "still here"
    for client in (hostile, good):
        client.close()


def test_a_sender_can_be_hung_up_on(listening):
    client = ClientSocket(listening.endpoint, "run", listening.context)
    client.send(messages.Goodbye("first"))
    listening.until(lambda: listening.received, "the message")
    (first, _), *_ = listening.received
    listening.server.hang_up_on_sender()
    listening.until(
        lambda: not listening.server.send(first, messages.Introduce()), "the end of the connection"
    )
    client.send(messages.Goodbye("second"))  # ZeroMQ connects again by itself
    listening.until(lambda: len(listening.received) == 2, "the second message")
    assert listening.received[1][0] != first
    client.close()


def test_what_a_sender_has_under_way_when_it_is_hung_up_on_is_not_looked_at(listening):
    hostile = ClientSocket(listening.endpoint, "run", listening.context)
    for number in range(10):  # fewer than a socket reads at once
        hostile.send(messages.Goodbye(str(number)))
    listening.until(lambda: listening.received, "the first message", hang_up=True)
    good = ClientSocket(listening.endpoint, "run", listening.context)
    good.send(messages.Goodbye("still here"))
    listening.until(
        lambda: any(received.message.reason == "still here" for _, received in listening.received),
        "the good one's message",
    )
    senders = [peer for peer, _ in listening.received]
    assert senders.count(senders[0]) == 1  # what it had not sent comes by another connection
    for client in (hostile, good):
        client.close()


def test_a_flood_of_connections_is_held_up_and_the_connections_that_are_there_go_on(
    listening, monkeypatch
):
    client = ClientSocket(listening.endpoint, "run", listening.context)
    client.send(messages.Goodbye("before"))
    listening.until(lambda: listening.received, "the message")
    monkeypatch.setattr(connection_limit, "MAX_PER_S", 0)  # each one halves the chance of the next
    with pytest.raises(TimeoutError):
        for number in range(1, 100):
            listening.connect(timeout_s=0.2).sendall(b"GET / HTTP/1.1\r\n\r\n")
            listening.until(lambda n=number: len(listening.refusals) >= n, "the refusal")
        pytest.skip("this kernel has no filters for sockets")
    client.send(messages.Goodbye("meanwhile"))
    listening.until(lambda: len(listening.received) == 2, "the second message")
    client.close()


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\0\0\0\0\0\0\0\1\x7f\3", b"\0" * 100, b"\x80\x04."]
)
def test_what_is_no_handshake_does_not_disturb_the_others(listening, sent):
    listening.connect().sendall(sent)
    client = ClientSocket(listening.endpoint, "run", listening.context)
    client.send(messages.Goodbye("still here"))
    listening.until(lambda: listening.received, "the good one's message")
    client.close()
