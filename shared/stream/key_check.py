"""Keys on sockets: who is let in, and what is said when someone is not.

The model process decides by the public key (ZeroMQ asks through ZAP, and its handler here is served
by whatever thread has the socket). Both ends watch their handshakes, so that a refusal has words.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

from shared.stream.keys import ClientKeys, ServerKeys

_ZAP_ENDPOINT = "inproc://zeromq.zap.01"
_ZAP_DOMAIN = b"tandem"
FAILURES = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
_AT_ONCE = 64
_EVENTS_AT_ONCE = 4096
_CLOSING_S = 1.0
_NUMBERS = itertools.count()  # one context may have many sockets


class KeyCheck:
    """Lets in those whose public key is on the list. One per context, by ZeroMQ's design."""

    def __init__(self, context: zmq.Context, keys: ServerKeys):
        self._allowed = keys.allowed
        self.socket = context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(_ZAP_ENDPOINT)

    def answer_waiting(self) -> Iterator[str]:
        """Answer the handshakes that wait; a sentence for each that is refused."""
        for _ in range(_AT_ONCE):
            if not self.socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:
                return
            version, request, _, address, _, mechanism, *credentials = self.socket.recv_multipart()
            key = ""
            if mechanism == b"CURVE" and credentials and len(credentials[0]) == 32:
                key = z85.encode(credentials[0]).decode()
            is_allowed = key in self._allowed
            answer = [b"200", b"OK"] if is_allowed else [b"400", b"this key is not on the list"]
            self.socket.send_multipart([version, request, *answer, b"", b""])
            if not is_allowed:
                who = address.decode(errors="replace")
                yield f"{who} has the key {key}, which is not on the list."

    def close(self) -> None:
        self.socket.unbind(_ZAP_ENDPOINT)  # closing alone would free the name only later
        self.socket.close()


class HandshakeWatch:
    """Tells of handshakes that failed on a socket, of the end of its listening, and more."""

    def __init__(self, socket: zmq.Socket, more_events: int = 0):
        self._watched = socket
        endpoint = f"inproc://handshakes-{next(_NUMBERS)}"
        socket.monitor(endpoint, FAILURES | zmq.EVENT_CLOSED | more_events)
        self.socket = socket.context.socket(zmq.PAIR)
        self.socket.setsockopt(zmq.LINGER, 0)
        # With a mark, ZeroMQ's only thread for all connections would wait when it is reached.
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.connect(endpoint)

    def events(self) -> Iterator[tuple[int, int]]:
        """What has happened since this was last asked: zmq.EVENT_* and its value."""
        for _ in range(_EVENTS_AT_ONCE):
            if not self.socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:
                return
            event = recv_monitor_message(self.socket)
            yield int(event["event"]), int(event["value"])

    def wait_until_closed(self) -> None:
        """Until the address is free again; ZeroMQ lets go of it in a thread of its own."""
        until_s = time.monotonic() + _CLOSING_S
        while (left_s := until_s - time.monotonic()) > 0 and self.socket.poll(left_s * 1000):
            if recv_monitor_message(self.socket)["event"] == zmq.EVENT_CLOSED:
                return

    def close(self) -> None:
        self._watched.disable_monitor()
        self.socket.close()  # or the context would wait for it for ever


def set_server_keys(socket: zmq.Socket, keys: ServerKeys) -> None:
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
    socket.setsockopt(zmq.ZAP_DOMAIN, _ZAP_DOMAIN)


def set_client_keys(socket: zmq.Socket, keys: ClientKeys) -> None:
    socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server.encode())
    socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
