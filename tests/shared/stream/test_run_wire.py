"""Endpoints and keys that are made for one run."""

import os

import zmq

from shared.places.private_file import private_file
from shared.stream.keys import load_client_keys, load_server_keys
from shared.stream.run_wire import RunWire
from shared.stream.sockets import ClientSocket, ServerSocket

NAMES = ("data_worker-0", "data_worker-1")


def keys_from(text, load):
    descriptor = private_file(text)
    try:
        return load(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def test_each_worker_finds_its_end_of_the_wire():
    wire = RunWire.between_hosts("127.0.0.1", 3, NAMES)
    port = int(wire.endpoint.rpartition(":")[2])
    assert wire.arguments("data", 0) == ["--connect", f"tcp://127.0.0.1:{port}"]
    assert wire.arguments("model", 2) == ["--listen", f"tcp://127.0.0.1:{port + 2}"]


def test_every_data_process_has_a_key_of_its_own_and_no_text_of_a_wire_shows_one():
    wire = RunWire.between_hosts("127.0.0.1", 1, NAMES)
    server = keys_from(wire.keys_of("model_worker"), load_server_keys)
    clients = [keys_from(wire.keys_of(name), load_client_keys) for name in NAMES]
    assert {server.allowed[client.public] for client in clients} == set(NAMES)
    assert all(client.server == server.public for client in clients)
    assert server.secret not in repr(wire) and clients[0].secret not in repr(wire)


def test_one_of_them_is_let_in():
    wire = RunWire.between_hosts("127.0.0.1", 1, NAMES)
    with zmq.Context() as here, zmq.Context() as there:
        keys = keys_from(wire.keys_of("model_worker"), load_server_keys)
        server = ServerSocket(wire.endpoint, "r", here, keys)
        keys = keys_from(wire.keys_of(NAMES[1]), load_client_keys)
        client = ClientSocket(wire.endpoint, "r", there, keys)
        client.socket.send(b"hello")
        for _ in range(100):
            assert list(server.refused_at_the_door()) == []
            if server.socket.poll(50):
                break
        assert server.socket.recv_multipart(zmq.DONTWAIT)[-1] == b"hello"
        client.close()
        server.close()
