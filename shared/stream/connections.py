"""Who is connected to the model process's socket, and for how long without having been let in.

ZeroMQ itself never ends a connection that is silent or sends nonsense, and tells only its monitor
who comes and goes. So this watches the monitor, and hangs up by shutting the descriptor down. A
descriptor's number may have passed to another connection meanwhile; that one then connects again.
"""

from __future__ import annotations

import contextlib
import os
import socket as sockets
import time
from collections.abc import Iterator

import zmq

from shared.stream.connection_limit import ConnectionLimit, let_through
from shared.stream.key_check import FAILURES, HandshakeWatch, KeyCheck, set_server_keys
from shared.stream.keys import ServerKeys

MAX_STRANGERS = 64
STRANGER_S = 15.0  # an honest data process introduces itself within a second
# Waking up for each event would cost more than what is done about it.
_LOOK_EVERY_S = 0.1
_FAILED = (
    "a handshake failed: the peer has another model process's key, or keys where this side has "
    "none (or the reverse), or is no data process at all."
)


class Doorway:
    """Keys, handshakes and connections of one listening socket."""

    def __init__(
        self,
        context: zmq.Context,
        socket: zmq.Socket,
        keys: ServerKeys | None,
        is_tcp: bool,
        num_expected: int = 0,
    ):
        """Only over TCP can just anyone connect, and only there connections are limited.

        `num_expected`: peers that may all come at once.
        """
        self._watch = HandshakeWatch(
            socket, zmq.EVENT_LISTENING | zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
        )
        self._limit = ConnectionLimit(num_expected) if is_tcp else None
        self._num_expected = num_expected
        self._listening: int | None = None
        self._looked_s = 0.0
        self._key_check = None
        if keys is not None:
            self._key_check = KeyCheck(context, keys)
            set_server_keys(socket, keys)
        self._strangers: dict[int, float] = {}  # descriptor -> since when, oldest first
        self._admitted: set[int] = set()  # perhaps before it was seen here that they had come

    @property
    def sockets(self) -> list[zmq.Socket]:
        """Those whose peers wait for an answer."""
        return [self._key_check.socket] if self._key_check is not None else []

    def refusals(self) -> Iterator[str]:
        """Do what is to be done at the door; a sentence for each peer that was turned away."""
        if self._key_check is not None:
            yield from self._key_check.answer_waiting()
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s, num_accepted = now_s, 0
        for kind, value in self._watch.events():
            if kind == zmq.EVENT_ACCEPTED:
                num_accepted += 1
                if value not in self._admitted:
                    self._strangers[value] = now_s
            elif kind == zmq.EVENT_LISTENING:
                self._listening = value
            elif kind == zmq.EVENT_DISCONNECTED:
                self._strangers.pop(value, None)
                self._admitted.discard(value)
            elif kind & FAILURES and kind != zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                yield _FAILED  # the key check has told of the other one
        yield from self._turn_away()
        if self._limit is not None and self._limit.note(num_accepted, now_s):
            if self._listening is not None:
                let_through(self._listening, self._limit.share)

    def _turn_away(self) -> Iterator[str]:
        most = max(MAX_STRANGERS, 2 * self._num_expected)
        while self._strangers:
            descriptor, since_s = next(iter(self._strangers.items()))
            is_overdue = time.monotonic() - since_s > STRANGER_S
            if not is_overdue and len(self._strangers) <= most:
                return
            self.hang_up(descriptor)
            if is_overdue:
                yield f"it did not introduce itself within {STRANGER_S:g} s."
            else:
                yield f"more than {most} peers are connected without introduction."

    def admit(self, descriptor: int) -> None:
        """Count a connection no longer as a stranger's: its peer has introduced itself."""
        self._strangers.pop(descriptor, None)
        self._admitted.add(descriptor)

    def hang_up(self, descriptor: int) -> None:
        self._strangers.pop(descriptor, None)
        with (
            contextlib.suppress(OSError),
            sockets.socket(fileno=os.dup(descriptor)) as connection,
        ):
            connection.shutdown(sockets.SHUT_RDWR)

    def wait_until_closed(self) -> None:
        self._watch.wait_until_closed()

    def close(self) -> None:
        self._watch.close()
        if self._key_check is not None:
            self._key_check.close()
