"""The data process's loop: turned away it ends with the reason, and it tells how far it is."""

import contextlib
import dataclasses
import threading

import msgpack
import pytest
import zmq

from data_worker.batches.movement import Movement
from data_worker.stream.serving import DataServer, Outbox
from shared.devices.cores import BusyMeter
from shared.errors import TandemError
from shared.stream import codec, messages
from shared.stream.sockets import ClientSocket, ServerSocket
from shared.worker.reports import Reporter

HELLO = messages.Hello("data_worker-0", 1, "index", "plan", "cpu", "2.21.0", 1)


class NoMaker:
    """In the place of the batch maker: nothing is asked of it here."""

    capacity = 1

    def close(self):
        pass


@pytest.fixture
def sides(tmp_path):
    """A model process's socket, and a data process's loop that talks to it."""
    tmp_path.chmod(0o700)
    context = zmq.Context()
    with contextlib.ExitStack() as stack:
        stack.callback(context.destroy, linger=0)
        server = ServerSocket(f"ipc://{tmp_path}/s", "run", context)
        stack.callback(server.close)
        reporter = Reporter(None)
        loop = DataServer(
            [ClientSocket(server.endpoint, "run", context)], HELLO, NoMaker(), Outbox(),
            reporter, Movement(reporter), BusyMeter(), lambda: False, num_examples=24,
        )  # fmt: skip
        yield server, loop


def answering(server, answer):
    """A thread that answers the first message with `answer(peer)`."""

    def run():
        assert server.socket.poll(10_000)
        ((peer, _),) = server.receive_waiting()
        answer(peer)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_a_refusal_ends_it_with_the_reason(sides):
    server, loop = sides
    thread = answering(server, lambda peer: server.send(peer, messages.Refused("another run.")))
    with pytest.raises(TandemError, match="refused this data process: another run."):
        loop.serve()
    thread.join()


def test_another_version_of_the_protocol_ends_it_with_the_reason(sides):
    server, loop = sides
    envelope = messages.Envelope("run", server.session, 1, messages.Welcome("data_worker-0"))
    header = msgpack.unpackb(codec.encode(envelope)[0])
    header["v"] = 99
    frame = msgpack.packb(header)
    thread = answering(server, lambda peer: server.socket.send_multipart([peer, frame]))
    with pytest.raises(TandemError, match="can't be understood: protocol version 99.*same version"):
        loop.serve()
    thread.join()


def test_the_end_of_the_run_ends_it_well(sides):
    server, loop = sides
    thread = answering(server, lambda peer: server.send(peer, messages.StopProducing("finished")))
    assert loop.serve() == "finished"
    thread.join()


def test_it_introduces_itself_with_what_it_can_work_on(sides):
    server, loop = sides
    heard = []

    def answer():
        assert server.socket.poll(10_000)
        for peer, received in server.receive_waiting():
            heard.append(received.message)
            server.send(peer, messages.StopProducing("finished"))

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    loop.serve()
    thread.join()
    assert heard == [dataclasses.replace(HELLO, capacity=1)]
