"""How many connections are let through: the decision, and what the kernel makes of it."""

import contextlib
import select
import socket

import pytest

from shared.stream.connection_limit import MAX_PER_S, ConnectionLimit, let_through

DEADLINE_S = 60.0


def after(limit, seconds, per_s, now_s):
    """The share after so many seconds of this, looked at ten times a second."""
    for tenth in range(round(10 * seconds)):
        limit.note(per_s // 10, now_s + tenth / 10)
    return limit.share


def test_data_processes_that_all_start_at_once_are_let_through():
    assert after(ConnectionLimit(), 60, 250, 1000.0) == 1.0


def test_a_flood_halves_the_share_until_it_is_no_more():
    limit = ConnectionLimit()
    assert limit.note(2 * MAX_PER_S, 1000.0)
    assert limit.share == 0.5
    assert after(limit, 5, 200, 1000.1) == 0.5
    assert after(limit, 1, 20_000, 1010.0) < 0.01


def test_the_share_is_never_nothing():
    assert after(ConnectionLimit(), 60, 100_000, 1000.0) > 0


def test_the_door_is_opened_again_when_it_has_been_calm_for_a_while():
    limit = ConnectionLimit()
    after(limit, 0.3, 100_000, 1000.0)
    assert limit.share == 1 / 8
    assert after(limit, 9, 10, 1000.3) == 1 / 8
    assert after(limit, 30, 10, 1009.3) == 1.0


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0), backlog=500) as listening:
        let_through(listening.fileno(), 0.0)
        with socket.socket() as probe:
            probe.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                probe.connect(listening.getsockname())
                pytest.skip("this kernel has no filters for sockets")
        yield listening


def connect_at_once(listening, stack, count):
    """Those of so many connections that stand without being asked for twice."""
    clients = [stack.enter_context(socket.socket()) for _ in range(count)]
    for client in clients:
        client.setblocking(False)
        client.connect_ex(listening.getsockname())
    return select.select([], clients, [], 0.2)[1]


def test_the_kernel_lets_the_share_through(listening):
    let_through(listening.fileno(), 0.25)
    with contextlib.ExitStack() as stack:
        assert 50 < len(connect_at_once(listening, stack, 400)) < 150


def test_who_is_overlooked_gets_through_later(listening):
    with contextlib.ExitStack() as stack:
        assert connect_at_once(listening, stack, 1) == []
        let_through(listening.fileno(), 1.0)
        listening.settimeout(DEADLINE_S)
        listening.accept()[0].close()


def test_a_connection_that_came_to_be_meanwhile_works(listening):
    let_through(listening.fileno(), 0.999)
    with socket.create_connection(listening.getsockname(), DEADLINE_S) as client:
        accepted, _ = listening.accept()
        let_through(listening.fileno(), 0.0)
        with accepted:
            accepted.sendall(b"there")
            assert client.recv(10) == b"there"
            client.sendall(b"back")
            assert accepted.recv(10) == b"back"


def test_a_descriptor_that_is_no_listening_socket_does_no_harm(tmp_path):
    with open(tmp_path / "file", "w") as file:
        let_through(file.fileno(), 0.5)
    let_through(1 << 20, 0.5)
