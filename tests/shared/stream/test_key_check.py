"""Keys on real sockets: who is let in, and that a refusal is said on both sides."""

import socket
import time

import pytest
import zmq

from shared.errors import TandemError
from shared.stream import messages
from shared.stream.keys import load_client_keys, load_server_keys, make_keys
from shared.stream.sockets import ClientSocket, ServerSocket

DEADLINE_S = 60.0


@pytest.fixture
def context():
    context = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def endpoint():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def keys(tmp_path):
    """Of this run's two sides, and of a data process that knows the server but is not listed."""
    make_keys(tmp_path / "ours", ["data_worker", "shut-out"])
    server = load_server_keys(tmp_path / "ours")
    shut_out = load_client_keys(tmp_path / "ours" / "shut-out.key")
    del server.allowed[shut_out.public]
    make_keys(tmp_path / "others", ["data_worker"])
    return {
        "server": server,
        "ours": load_client_keys(tmp_path / "ours"),
        "shut out": shut_out,
        "another run's": load_client_keys(tmp_path / "others"),
        "none": None,
    }


class Meeting:
    """A model process's socket and a data process's, and what each had to say."""

    def __init__(self, context, endpoint, server_keys, client_keys):
        self.server = ServerSocket(endpoint, "run", context, server_keys)
        self.client = ClientSocket(endpoint, "run", context, client_keys)
        self.client.send(messages.Goodbye("hello"))
        self.received, self.refusals, self.client_failed = [], [], False

    def until(self, condition):
        poller = zmq.Poller()
        for each in self.server.sockets:
            poller.register(each, zmq.POLLIN)
        until_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < until_s, (self.received, self.refusals, self.client_failed)
            poller.poll(50)
            self.refusals += self.server.refused_at_the_door()
            self.received += self.server.receive_waiting()
            self.client_failed |= self.client.handshake_failed()

    def close(self):
        self.client.close()
        self.server.close()


@pytest.fixture
def meet(context, endpoint, keys):
    meetings = []

    def meet(server, client):
        meetings.append(Meeting(context, endpoint, keys[server], keys[client]))
        return meetings[-1]

    yield meet
    for meeting in meetings:
        meeting.close()


def test_a_listed_key_is_let_in(meet):
    meeting = meet("server", "ours")
    meeting.until(lambda: meeting.received)
    assert not meeting.refusals


def test_a_key_that_is_not_listed_is_refused_and_both_sides_say_so(meet, keys):
    meeting = meet("server", "shut out")
    with pytest.raises(TandemError, match="refused this data process's key.*launcher.py keys"):
        meeting.until(lambda: meeting.received)
    assert f"has the key {keys['shut out'].public}, which is not on the list" in meeting.refusals[0]
    assert not meeting.received


@pytest.mark.parametrize(
    ("server", "client"),
    [("server", "another run's"), ("server", "none"), ("none", "ours")],
    ids=["another run's key", "no key where one is needed", "a key where there is none"],
)
def test_other_handshakes_that_fail_are_told_on_both_sides(meet, server, client):
    meeting = meet(server, client)
    meeting.until(lambda: meeting.refusals and meeting.client_failed)
    assert "a handshake failed" in meeting.refusals[0]
    assert not meeting.received


def test_a_second_session_in_the_same_process_can_check_keys_at_once(context, keys):
    """After a roll-back the model process listens again, with the same context."""
    for number in range(3):
        ServerSocket(f"inproc://session-{number}", "run", context, keys["server"]).close()
