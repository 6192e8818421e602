"""ZeroMQ sockets for the stream: the model process's ROUTER, a data process's DEALER.

Flow control is by tickets, so high-water marks are off. Each socket lives in one thread.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import zmq

from shared import codec
from shared.endpoints import claim_endpoint, make_private_directory
from shared.errors import ConfigError, ProtocolError
from shared.messages import Envelope, Message

_LINGER_MS = 1000  # long enough for a last message, short enough never to hang an exit
_HANDSHAKE_MS = 5000
_RECONNECT_MS = 50
_RECONNECT_MAX_MS = 1000
# Sending a frame without a copy costs a notice to Python when it is gone; this much copies faster.
_COPY_THRESHOLD_BYTES = 1 << 18
# Half a batch under way keeps one side busy while the other is in Python; the kernel may give less.
_SEND_BUFFER_BYTES = 4 << 20
_MESSAGES_AT_ONCE = 256  # a peer that floods must not keep its receiver from everything else


def _configure(socket: zmq.Socket) -> None:
    socket.setsockopt(zmq.LINGER, _LINGER_MS)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, codec.MAX_BLOCK_BYTES)
    socket.setsockopt(zmq.IPV6, 1)


def _while_any_wait(socket: zmq.Socket) -> Iterator[int]:
    """One round for each message that can be had at once; asking first is cheaper than failing."""
    for number in range(_MESSAGES_AT_ONCE):
        if not socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:
            return
        yield number


class ServerSocket:
    """The model process's end: binds, knows each peer by the identity ZeroMQ gave it."""

    def __init__(self, endpoint: str, run: str, context: zmq.Context | None = None):
        make_private_directory(endpoint)
        self._claim = claim_endpoint(endpoint)
        self.endpoint = endpoint
        self.session = uuid.uuid4().hex
        self._run = run
        self._sequence = 0
        self.socket = (context or zmq.Context.instance()).socket(zmq.ROUTER)
        _configure(self.socket)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        try:
            self.socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(
                f"{endpoint}: can't listen there ({error.strerror}). "
                "Is another run using it? Choose another --endpoint."
            ) from None

    def send(self, peer: bytes, message: Message) -> bool:
        """Send to one peer; False when it is no longer there."""
        self._sequence += 1
        envelope = Envelope(self._run, self.session, self._sequence, message)
        try:
            (frame,) = codec.encode(envelope)  # no order has arrays
            self.socket.send(peer, zmq.SNDMORE | zmq.DONTWAIT)
            self.socket.send(frame, zmq.DONTWAIT)
        except zmq.ZMQError:
            return False
        return True

    def receive_waiting(self) -> Iterator[tuple[bytes, Envelope | ProtocolError]]:
        """The messages that are already here, bad ones as the error that they are."""
        for _ in _while_any_wait(self.socket):
            identity, *frames = self.socket.recv_multipart(copy=False)
            try:
                envelope = codec.decode([frame.buffer for frame in frames])
            except ProtocolError as error:
                yield identity.bytes, error
                continue
            yield identity.bytes, envelope

    def close(self) -> None:
        self.socket.close()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None


class ClientSocket:
    """A data process's end: connects, and takes on the session that the model process gives."""

    def __init__(self, endpoint: str, run: str, context: zmq.Context | None = None):
        self.endpoint = endpoint
        self.session = ""
        self._run = run
        self._sequence = 0
        self.socket = (context or zmq.Context.instance()).socket(zmq.DEALER)
        _configure(self.socket)
        self.socket.copy_threshold = _COPY_THRESHOLD_BYTES
        self.socket.setsockopt(zmq.SNDBUF, _SEND_BUFFER_BYTES)
        self.socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
        self.socket.connect(endpoint)

    def send(self, message: Message) -> None:
        """Send without copying: the arrays of a message must not be written to any more."""
        self._sequence += 1
        frames = codec.encode(Envelope(self._run, self.session, self._sequence, message))
        self.socket.send_multipart(frames, copy=len(frames) == 1)

    def receive_waiting(self) -> Iterator[Envelope | ProtocolError]:
        """The messages that are already here, bad ones as the error that they are."""
        for _ in _while_any_wait(self.socket):
            try:
                yield codec.decode(self.socket.recv_multipart())
            except ProtocolError as error:
                yield error

    def close(self) -> None:
        self.socket.close()
