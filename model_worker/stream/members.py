"""Which data processes take part: let in, kept in touch with, forgotten, hung up on."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

from model_worker.stream.admission import Expected
from model_worker.stream.peer_limits import PeerLimits
from model_worker.stream.peers import Peer, Refusals, plain
from shared.stream import messages
from shared.stream.sockets import ServerSocket

log = logging.getLogger(__name__)

_SILENT_AFTER_S = 10.0  # a peer whose own loop says nothing this long has lost its tickets
_WAITING_SAID_EVERY_S = 15.0
_MAX_PEERS = 256  # or twice as many as the run starts


class Members:
    """Those who were let in, by the identity that the socket gave them. Lives in the receiving thread."""

    def __init__(self, socket: ServerSocket, expected: Expected, on_left: Callable[[bytes], None]):
        """`on_left(peer)`: whatever it was asked for, it will not make."""
        self.peers: dict[bytes, Peer] = {}
        self.first_s: float | None = None  # when the first one was let in
        self._socket = socket
        self._expected = expected
        self._on_left = on_left
        self._limits = PeerLimits(expected.num_workers)
        self._most = max(_MAX_PEERS, 2 * expected.num_workers)
        self._refusals = Refusals()
        self._alone_since_s = time.monotonic()

    @property
    def refused(self) -> Counter[str]:
        """How much was refused or dropped, by what it was."""
        return self._refusals.counts

    def note_refused_at_the_door(self) -> None:
        for reason in self._socket.refused_at_the_door():
            self._refusals.note(reason)

    def keep_in_touch(self, now_s: float, first_batch: int) -> None:
        """Find those that are gone: ZeroMQ refuses to send to them, or they have gone silent.

        Nothing is waited for any more that comes before `first_batch`.
        """
        for peer, known in list(self.peers.items()):
            known.forget_before(first_batch)
            if now_s - known.heard_s > _SILENT_AFTER_S:
                self.forget(peer, f"silent for {_SILENT_AFTER_S:g} s")
            elif not self._socket.send(peer, messages.Welcome(known.name, known.memory)):
                self.forget(peer, "connection lost")
        self._refusals.tell(now_s)
        self._tell_if_alone(now_s)

    def _tell_if_alone(self, now_s: float) -> None:
        """Whoever started only this side by hand must not wonder what it does."""
        if self.peers:
            self._alone_since_s = now_s
        elif now_s - self._alone_since_s > _WAITING_SAID_EVERY_S:
            self._alone_since_s = now_s
            log.info("waiting for a data process at %s", self._socket.endpoint)

    def note_heard(self, peer: bytes, received: messages.Envelope) -> None:
        known = self.peers[peer]
        known.heard_s, known.sequence = time.monotonic(), received.sequence

    def welcome(self, peer: bytes, received: messages.Envelope, hello: messages.Hello) -> bool:
        """Let a data process in, or say why not; whether it is in."""
        reason = self._expected.mismatch(received.run, hello)
        is_new = peer not in self.peers
        if not reason and is_new:
            self._make_room(received, hello)
            if len(self.peers) >= self._most:
                reason = f"there are {self._most} data processes already."
        if reason:
            self.refuse(peer, reason)
            return False
        now_s = time.monotonic()
        if not self._limits.bears_introduction(peer, now_s):
            self._hang_up(peer)
            return False
        self._socket.admit_sender()
        if is_new:
            log.info("data process %s (pid %d) joined", hello.worker, hello.pid)
            self.peers[peer] = Peer(hello.worker, hello.pid, heard_s=now_s)
            self._limits.forget(peer)
            self.first_s = self.first_s or now_s
            if received.session == self._socket.session:
                # Its connection broke. Memory that it handed over may have been lost with that.
                self._socket.send(peer, messages.Introduce())
        known = self.peers[peer]
        self.note_heard(peer, received)
        memory = self._socket.share_memory_with_sender(hello)
        if is_new or memory != known.memory:
            known.memory = memory
            self._socket.send(peer, messages.Welcome(known.name, memory))
        return True

    def _make_room(self, received: messages.Envelope, hello: messages.Hello) -> None:
        """Forget those whose place a newcomer takes: its tickets are not to wait for them.

        A name alone shows nothing. Whoever the launcher replaces is dead, so its connection is gone
        and nothing can be sent to it. A process whose connection broke is itself: it has its pid
        and counts its messages on. Any other of that name is alive, be it that two were started
        with one --name: forgotten, it would come back within a second and throw this one out. It
        stays, and both work, for only the log tells data processes apart by their names.
        """
        for other, known in list(self.peers.items()):
            if known.name != hello.worker:
                continue
            is_itself = known.pid == hello.pid and known.sequence < received.sequence
            is_there = self._socket.send(other, messages.Welcome(known.name, known.memory))
            if is_itself or not is_there or len(self.peers) >= self._most:
                self.forget(other, f"replaced by pid {hello.pid}")
            else:
                log.warning(
                    "two data processes are called %s (pids %d and %d). Both are at work; give one "
                    "of them another --name to tell them apart.",
                    known.name, known.pid, hello.pid,
                )  # fmt: skip

    def forget(self, peer: bytes, reason: str) -> None:
        known = self.peers.pop(peer, None)
        self._limits.forget(peer)
        self._socket.forget(peer)
        if known is not None:
            log.warning("data process %s (pid %d) left: %s", known.name, known.pid, plain(reason))
            self._on_left(peer)

    def refuse(self, peer: bytes, reason: str) -> None:
        """Tell a peer why what it sent can't be used."""
        self._refusals.note(reason)
        if self.bears(peer):
            self._socket.send(peer, messages.Refused(plain(reason)))

    def bears(self, peer: bytes, what: str = "") -> bool:
        """Note a message that is of no use; False when its sender has been hung up on for it."""
        if what:
            self.refused[what] += 1
        num_bytes = self._socket.last_num_bytes
        if self._limits.bears(peer, peer in self.peers, time.monotonic(), num_bytes):
            return True
        self._hang_up(peer)
        return False

    def _hang_up(self, peer: bytes) -> None:
        self.refused["hung up on"] += 1
        self._socket.hang_up_on_sender()
        self.forget(peer, "it sent too many messages of no use")

    def introduce_again(self, peer: bytes, what: str) -> None:
        """Have a peer that is of no use as it is introduce itself, unless it does that too often."""
        if self.bears(peer, what):
            self._socket.send(peer, messages.Introduce())

    def ask_for_memory(self, peer: bytes) -> None:
        """Have a peer offer its memory anew, and make again what it handed over in the old one.

        It can't have meant harm: it was told that its memory is mapped, and knows no better until
        it hears this. Then it uses other memory, or the socket if that can't be mapped either, and
        with its next Hello it gets its tickets back.
        """
        known = self.peers[peer]
        log.info("the memory of data process %s (pid %d) is not mapped any more; asking it to "
                 "introduce itself again", known.name, known.pid)  # fmt: skip
        known.memory = ""
        self._socket.forget(peer)
        self._on_left(peer)
        self.introduce_again(peer, "memory not mapped")

    def tell_all(self, message: messages.Message) -> None:
        for peer in list(self.peers):
            self._socket.send(peer, message)
