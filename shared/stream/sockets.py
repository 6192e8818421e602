"""ZeroMQ sockets for the stream: the model process's ROUTER, a data process's DEALER.

Flow control is by tickets. The high-water marks only bound what a peer that keeps to no rule can
make the model process hold. Each socket lives in one thread.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import socket as sockets
import struct
import uuid
from collections.abc import Callable, Iterator

import numpy as np
import zmq

from shared.config.installation import PROGRAM
from shared.errors import ConfigError, ProtocolError, TandemError
from shared.stream import codec
from shared.stream.batch_memory import BatchMemory, PeerMemory
from shared.stream.connections import Doorway
from shared.stream.endpoints import CHOOSE_ANOTHER, take_endpoint
from shared.stream.key_check import FAILURES, HandshakeWatch, set_client_keys
from shared.stream.keys import ClientKeys, ServerKeys
from shared.stream.messages import Envelope, Hello, Introduce, Message, Welcome

log = logging.getLogger(__name__)

_LINGER_MS = 1000  # long enough for a last message, short enough never to hang an exit
_HANDSHAKE_MS = 5000
_RECONNECT_MS = 50
_RECONNECT_MAX_MS = 1000
_CONNECT_MS = 2000  # the kernel alone would ask ever more seldom one that is under a flood
# Sending a frame without a copy costs a notice to Python when it is gone; this much copies faster.
_COPY_THRESHOLD_BYTES = 1 << 18
# Half a batch under way keeps one side busy while the other is in Python; the kernel may give less.
_SEND_BUFFER_BYTES = 4 << 20
_MESSAGES_AT_ONCE = 256  # a peer that floods must not keep its receiver from everything else
# Of one peer: batches that wait to be taken in, and orders that it has not read.
_MAX_UNREAD_BATCHES = 16
_MAX_UNREAD_ORDERS = 8192
_MAX_HUNG_UP = 1024  # who are remembered; no connection has so much unread that more were needed
_CREDENTIALS = struct.Struct("iII")  # of SO_PEERCRED: process, user, group
_KEEPALIVE = {zmq.TCP_KEEPALIVE: 1, zmq.TCP_KEEPALIVE_IDLE: 20, zmq.TCP_KEEPALIVE_INTVL: 5,
              zmq.TCP_KEEPALIVE_CNT: 3}  # fmt: skip


def _configure(socket: zmq.Socket) -> None:
    socket.setsockopt(zmq.LINGER, _LINGER_MS)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, codec.MAX_BLOCK_BYTES)
    socket.setsockopt(zmq.IPV6, 1)
    for option, value in _KEEPALIVE.items():  # notices a host that is gone without a word
        socket.setsockopt(option, value)


def _while_any_wait(socket: zmq.Socket) -> Iterator[int]:
    """One round for each message that can be had at once; asking first is cheaper than failing."""
    for number in range(_MESSAGES_AT_ONCE):
        if not int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            return
        yield number


class ServerSocket:
    """The model process's end: binds, knows each peer by the identity ZeroMQ gave it."""

    def __init__(
        self,
        endpoint: str,
        run: str,
        context: zmq.Context | None = None,
        keys: ServerKeys | None = None,
        max_frame_bytes: int = codec.MAX_BLOCK_BYTES,
        num_expected: int = 0,
    ):
        """With `keys`, only those whose keys are on the list are let in.

        `num_expected`: peers that are meant to come, perhaps all at once.

        Whoever sends a frame of more than `max_frame_bytes` loses its connection.
        """
        self._claim = take_endpoint(endpoint)
        self.endpoint = endpoint
        self.session = uuid.uuid4().hex
        self._run = run
        self._sequence = 0
        context = context or zmq.Context.instance()
        self.socket = context.socket(zmq.ROUTER)
        _configure(self.socket)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.setsockopt(zmq.RCVHWM, _MAX_UNREAD_BATCHES)
        self.socket.setsockopt(zmq.SNDHWM, _MAX_UNREAD_ORDERS)
        max_frame_bytes = max(codec.MAX_HEADER_BYTES, max_frame_bytes)
        self.socket.setsockopt(zmq.MAXMSGSIZE, max_frame_bytes)
        is_tcp = endpoint.startswith("tcp://")
        self._doorway = Doorway(context, self.socket, keys, is_tcp, num_expected)
        self._last_frame = zmq.Frame()  # the identity of its sender
        self.last_num_bytes = 0  # of the message that was received last
        # Of each peer, the memory that it offered last: its name, and itself if it could be mapped.
        self._memories: dict[bytes, tuple[str, PeerMemory | None]] = {}
        self._hung_up: dict[bytes, None] = {}  # oldest first
        self._is_bound = False
        try:
            self.socket.bind(endpoint)
            self._is_bound = True
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(
                f"{endpoint}: can't listen there ({error.strerror}). "
                f"Is another run using it? {CHOOSE_ANOTHER}"
            ) from None

    @property
    def sockets(self) -> list[zmq.Socket]:
        """All that the thread that has this socket must wait on."""
        return [self.socket, *self._doorway.sockets]

    def refused_at_the_door(self) -> Iterator[str]:
        """Answer the handshakes that wait; a sentence for each peer that was turned away."""
        return self._doorway.refusals()

    def admit_sender(self) -> None:
        """The sender of the message that was received last is no stranger any more."""
        if (descriptor := self._last_descriptor()) is not None:
            self._doorway.admit(descriptor)

    def hang_up_on_sender(self) -> None:
        """End the connection by which the message came that was received last.

        What else has come by it already is not looked at.
        """
        self._hung_up[self._last_frame.bytes] = None
        if len(self._hung_up) > _MAX_HUNG_UP:
            del self._hung_up[next(iter(self._hung_up))]
        if (descriptor := self._last_descriptor()) is not None:
            self._doorway.hang_up(descriptor)

    def share_memory_with_sender(self, hello: Hello) -> str:
        """Map the memory that the `Hello` received last offers; its name, or "" if there is none.

        Only over ipc, where the kernel says which process is at the other end.
        """
        peer = self._last_frame.bytes
        if not hello.memory or not self.endpoint.startswith("ipc://"):
            self._memories.pop(peer, None)
            return ""
        offered, memory = self._memories.get(peer, ("", None))
        if hello.memory != offered:
            memory = self._map_memory(hello)
            self._memories[peer] = hello.memory, memory
        return hello.memory if memory is not None else ""

    def _map_memory(self, hello: Hello) -> PeerMemory | None:
        try:
            if (descriptor := self._last_descriptor()) is None:
                raise OSError("it has no connection of its own")
            with sockets.socket(fileno=os.dup(descriptor)) as connection:
                packed = connection.getsockopt(
                    sockets.SOL_SOCKET, sockets.SO_PEERCRED, _CREDENTIALS.size
                )
            pid, _, _ = _CREDENTIALS.unpack(packed)
            return PeerMemory(pid, hello.memory_descriptor, hello.memory_slot_bytes, hello.memory)
        except (OSError, TypeError, ValueError) as error:
            log.info("the batches of %r come through the socket: %s", hello.worker[:128], error)
            return None

    def forget(self, peer: bytes) -> None:
        """Let go of a peer that has left. What it handed over stays as long as it is used."""
        self._memories.pop(peer, None)

    def _last_descriptor(self) -> int | None:
        try:
            found = self._last_frame.get(zmq.SRCFD)
        except zmq.ZMQError:
            return None  # a peer in this process
        return found if found >= 0 else None

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
            if identity.bytes in self._hung_up:
                continue
            self._last_frame = identity
            self.last_num_bytes = sum(map(len, frames))
            _, memory = self._memories.get(identity.bytes, ("", None))
            block_at = memory.block if memory is not None else None
            try:
                envelope = codec.decode([frame.buffer for frame in frames], block_at, self.session)
            except ProtocolError as error:
                yield identity.bytes, error
                continue
            yield identity.bytes, envelope

    def close(self) -> None:
        """Returns when the endpoint can be listened on again, as after a roll-back."""
        if self.socket.closed:
            return
        if self._is_bound and not self.endpoint.startswith("inproc://"):
            self.socket.unbind(self.endpoint)
            self._doorway.wait_until_closed()
        self._doorway.close()
        self.socket.close()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None


class ClientSocket:
    """A data process's end: connects, and takes on the session that the model process gives."""

    def __init__(
        self,
        endpoint: str,
        run: str,
        context: zmq.Context | None = None,
        keys: ClientKeys | None = None,
        make_memory: Callable[[], BatchMemory] | None = None,
    ):
        """`make_memory` makes memory that a model process on this host may take batches from."""
        self.endpoint = endpoint
        self._session = ""
        self._make_memory = make_memory if endpoint.startswith("ipc://") else None
        self._memory: BatchMemory | None = None
        self._shared_memory = ""  # the name of the one that the model process has mapped
        self.renew_memory()
        self._run = run
        self._sequence = 0
        self.socket = (context or zmq.Context.instance()).socket(zmq.DEALER)
        _configure(self.socket)
        self.socket.copy_threshold = _COPY_THRESHOLD_BYTES
        self.socket.setsockopt(zmq.SNDBUF, _SEND_BUFFER_BYTES)
        self.socket.setsockopt(zmq.CONNECT_TIMEOUT, _CONNECT_MS)
        self.socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
        self._watch = HandshakeWatch(self.socket)
        if keys is not None:
            set_client_keys(self.socket, keys)
        self.socket.connect(endpoint)

    @property
    def session(self) -> str:
        return self._session

    @session.setter
    def session(self, session: str) -> None:
        """A new model process gives nothing back of what the one before had."""
        if self._session not in ("", session) and self._memory_is_handed_over():
            self.renew_memory()
        self._session = session

    def _memory_is_handed_over(self) -> bool:
        return self._memory is not None and self._memory.is_handed_over

    def handshake_failed(self) -> bool:
        """Whether a handshake has been broken off since this was last asked.

        Raises:
            TandemError: the model process does not let this data process's key in.
        """
        kinds = [kind for kind, _ in self._watch.events() if kind & FAILURES]
        if zmq.EVENT_HANDSHAKE_FAILED_AUTH in kinds:
            raise TandemError(
                f"the model process at {self.endpoint} refused this data process's key: it is not "
                f"on the list. Make one with '{PROGRAM} keys --name NAME' where the model "
                "process's keys are, and restart the model process."
            )
        return bool(kinds)

    def renew_memory(self) -> None:
        """Leave what the model process has of this one's memory to it, and use other memory."""
        if self._memory is not None:
            self._memory.close()
        self._memory = None
        if self._make_memory is not None:
            try:
                self._memory = self._make_memory()
            except OSError as error:
                log.info("batches go through the socket: %s", error)

    def take_memory(self, num_bytes: int) -> np.ndarray | None:
        """Memory for a block, uint8 (bytes,), that needs not be copied to be sent, if there is any."""
        return self._memory.take(num_bytes) if self._memory is not None else None

    def send(self, message: Message) -> None:
        """Send without copying: the arrays of a message must not be written to any more."""
        self._sequence += 1
        memory = self._memory
        if isinstance(message, Hello) and memory is not None:
            message = dataclasses.replace(
                message,
                memory=memory.token,
                memory_descriptor=memory.descriptor,
                memory_slot_bytes=memory.slot_bytes,
            )
        envelope = Envelope(self._run, self.session, self._sequence, message)
        if memory is not None and memory.token == self._shared_memory:
            frames = codec.encode(envelope, memory.hand_over)
        else:
            frames = codec.encode(envelope)
        self.socket.send_multipart(frames, copy=len(frames) == 1)

    def receive_waiting(self) -> Iterator[Envelope | ProtocolError]:
        """The messages that are already here, bad ones as the error that they are."""
        for _ in _while_any_wait(self.socket):
            try:
                envelope = codec.decode(self.socket.recv_multipart())
            except ProtocolError as error:
                yield error
                continue
            if isinstance(envelope.message, Welcome):
                self._shared_memory = envelope.message.memory
            elif isinstance(envelope.message, Introduce) and self._memory_is_handed_over():
                self.renew_memory()  # what is on its way there may never be given back
            yield envelope

    def close(self) -> None:
        if not self.socket.closed:
            self._watch.close()
        self.socket.close()
        self._make_memory = None
        self.renew_memory()
