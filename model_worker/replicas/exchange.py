"""How replicas add up what they have computed: the first one is the hub, each other has a spoke.

Everything is added by the hub, in the order of the replicas, and from zeros on; the others get the
sum. So the weights of all move by the same bits, and, where every batch is exchanged by itself, by
those of one process that trains on all of the batches. What the run decides comes with the sum, or
in the place of it: no replica can go on otherwise than the others.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import zmq

from model_worker.replicas.words import Begin, Contribution, GoOn, Here, Joined, Stop, Total, Word
from model_worker.replicas.words import decode as decode_word
from model_worker.replicas.words import encode as encode_word
from shared.errors import ProtocolError
from shared.stream.endpoints import take_endpoint
from shared.stream.key_check import HandshakeWatch

log = logging.getLogger(__name__)

_LINGER_MS = 1000
_WAIT_MS = 200
_LOOK_EVERY_S = 0.5
_JOIN_EVERY_S = 1.0


class ReplicaLost(Exception):
    """Another replica is gone: no step can be made whole any more."""


class Told(Exception):
    """The first replica has said what all do now, in the place of going on with the step."""

    def __init__(self, word: Begin | Stop, arrays: list[np.ndarray]):
        super().__init__(type(word).__name__)
        self.word, self.arrays = word, arrays


def _configure(socket: zmq.Socket) -> None:
    socket.setsockopt(zmq.LINGER, _LINGER_MS)
    socket.setsockopt(zmq.SNDHWM, 0)  # each side waits for the other: there is never much
    socket.setsockopt(zmq.RCVHWM, 0)


class Hub:
    """The first replica's end. Lives in the thread that trains."""

    def __init__(self, endpoint: str, num_replicas: int, context: zmq.Context | None = None):
        """
        Raises:
            ConfigError: another process listens there.
        """
        self._claim = take_endpoint(endpoint)
        self.num_replicas = num_replicas
        self.session = 0  # beginnings so far
        self._peers: dict[int, bytes] = {}
        self._total: np.ndarray | None = None
        self._operands: list[np.ndarray] = []
        self._looked_s = 0.0
        self._socket = (context or zmq.Context.instance()).socket(zmq.ROUTER)
        _configure(self._socket)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.bind(endpoint)

    def begin(
        self, begin: Begin, arrays: Sequence[np.ndarray], on_wait: Callable[[], None]
    ) -> None:
        """Wait until all replicas are there, and have them begin with this state.

        `on_wait` is called while it waits, here and in `add`; what it raises ends the waiting.

        Raises:
            ReplicaLost: one is gone.
        """
        while len(self._peers) < self.num_replicas - 1:
            self._receive(on_wait)
        self.session += 1
        self._total = None
        self._tell_all(dataclasses.replace(begin, session=self.session), arrays)

    def add(
        self,
        said: Contribution,
        arrays: Sequence[np.ndarray],
        word: Total,
        is_last: bool,
        on_wait: Callable[[], None],
    ) -> tuple[list[np.ndarray] | None, list[Contribution]]:
        """Add what all replicas say of as many batches as this one does of its own.

        `word` goes with the total: how the weights are moved by it.

        Returns:
            With the last of a step the arrays of `Total`, by now known to all; and what was said
            beside them, in the order of the replicas.

        Raises:
            ReplicaLost: one is gone.
        """
        found = {0: (said, list(arrays))}
        forms = [(array.dtype, array.shape) for array in arrays]
        while len(found) < self.num_replicas:
            rank, heard, theirs = self._receive(on_wait)
            if isinstance(heard, Contribution) and (heard.session, heard.step) == (
                self.session,
                said.step,
            ):
                if [(array.dtype, array.shape) for array in theirs] == forms:
                    found[rank] = heard, theirs
        if self._total is None:  # from zeros on
            self._total, self._operands = np.zeros_like(arrays[0]), []
        for rank in range(self.num_replicas):
            self._total += found[rank][1][0]
        # A replica has every R-th batch: the first of each, then the second of each.
        self._operands.append(np.stack([found[rank][1][1] for rank in range(len(found))], 1))
        all_said = [found[rank][0] for rank in range(self.num_replicas)]
        if not is_last:
            self._tell_all(GoOn(self.session))
            return None, all_said
        operands = np.concatenate(self._operands)
        num_batches = operands.shape[0] * operands.shape[1]
        whole = [self._total, operands.reshape(num_batches, operands.shape[2])]
        self._total = None
        self._tell_all(dataclasses.replace(word, session=self.session), whole)
        return whole, all_said

    def stop(self, code: int) -> None:
        """Have all replicas end with this exit code; those that are gone already need not hear."""
        for rank in list(self._peers):
            try:
                self._tell(rank, encode_word(Stop(code)))
            except ReplicaLost:
                log.info("replica %d had ended already", rank)

    def close(self) -> None:
        self._socket.close()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def _receive(self, on_wait: Callable[[], None]) -> tuple[int, Word, list[np.ndarray]]:
        """The next word of a replica that has joined."""
        while True:
            while not self._socket.poll(_WAIT_MS):
                on_wait()
                self._look_for_lost()
            peer, *frames = self._socket.recv_multipart(copy=False)
            try:
                word, arrays = decode_word([frame.buffer for frame in frames])
            except ProtocolError as error:
                log.warning("%s", error)
                continue
            if isinstance(word, Joined) and 0 < word.rank < self.num_replicas:
                self._note_joined(word.rank, peer.bytes)
                return word.rank, word, arrays
            for rank, known in self._peers.items():
                if known == peer.bytes:
                    return rank, word, arrays

    def _note_joined(self, rank: int, peer: bytes) -> None:
        """One that is started anew has nothing of what the one before it had."""
        known = self._peers.get(rank)
        if known not in (None, peer) and self.session:
            raise ReplicaLost(f"replica {rank} was started again")
        if known != peer:
            log.info("replica %d joined", rank)
            self._peers[rank] = peer

    def _look_for_lost(self) -> None:
        """ZeroMQ refuses to send to whoever is gone."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            self._tell_all(Here())

    def _tell_all(self, word: Word, arrays: Sequence[np.ndarray] = ()) -> None:
        frames = encode_word(word, arrays)
        for rank in self._peers:
            self._tell(rank, frames)

    def _tell(self, rank: int, frames: list[Any]) -> None:
        try:
            self._socket.send(self._peers[rank], zmq.SNDMORE)
            self._socket.send_multipart(frames, copy=False)
        except zmq.ZMQError:
            raise ReplicaLost(f"replica {rank} is gone") from None


class Spoke:
    """The end of any other replica. Lives in the thread that trains."""

    def __init__(self, endpoint: str, rank: int, context: zmq.Context | None = None):
        self._rank = rank
        self._session = 0
        self._joined_s = -_JOIN_EVERY_S
        self._socket = (context or zmq.Context.instance()).socket(zmq.DEALER)
        _configure(self._socket)
        self._watch = HandshakeWatch(self._socket, zmq.EVENT_DISCONNECTED)
        self._socket.connect(endpoint)

    def wait_for_order(self, on_wait: Callable[[], None]) -> Told:
        """What the first replica has all replicas do next, while this one has nothing to say.

        `on_wait` is called while it waits, here and in `say`; what it raises ends the waiting.

        Raises:
            ReplicaLost: the first replica is gone.
        """
        try:
            while True:
                self._receive(on_wait)
        except Told as told:
            return told

    def look(self) -> None:
        """Take in what has been said meanwhile.

        Raises:
            Told: all are to do something else.
            ReplicaLost: the first replica is gone.
        """
        while self._socket.poll(0):
            self._take()
        self._look_for_lost()

    def say(
        self, said: Contribution, arrays: Sequence[np.ndarray], on_wait: Callable[[], None]
    ) -> tuple[Total, list[np.ndarray]] | None:
        """Say what batches of this replica say; the step's total if it is whole with them.

        Raises:
            Told: all are to do something else.
            ReplicaLost: the first replica is gone.
        """
        word = dataclasses.replace(said, session=self._session)
        self._socket.send_multipart(encode_word(word, arrays), copy=False)
        while True:
            answer, whole = self._receive(on_wait)
            if isinstance(answer, Total) and answer.session == self._session:
                return answer, whole
            if isinstance(answer, GoOn) and answer.session == self._session:
                return None

    def close(self) -> None:
        if not self._socket.closed:
            self._watch.close()
        self._socket.close()

    def _receive(self, on_wait: Callable[[], None]) -> tuple[Word, list[np.ndarray]]:
        while not self._socket.poll(_WAIT_MS):
            if not self._session:
                self._join()
            on_wait()
            self._look_for_lost()
        return self._take()

    def _join(self) -> None:
        now_s = time.monotonic()
        if now_s - self._joined_s >= _JOIN_EVERY_S:
            self._joined_s = now_s
            self._socket.send_multipart(encode_word(Joined(self._rank)))

    def _take(self) -> tuple[Word, list[np.ndarray]]:
        frames = self._socket.recv_multipart(copy=False)
        word, arrays = decode_word([frame.buffer for frame in frames])
        if isinstance(word, Begin):
            self._session = word.session
        if isinstance(word, (Begin, Stop)):
            raise Told(word, arrays)
        return word, arrays

    def _look_for_lost(self) -> None:
        is_cut = any(kind == zmq.EVENT_DISCONNECTED for kind, _ in self._watch.events())
        if is_cut and self._session:  # else whoever comes in its place is as good
            raise ReplicaLost("the first replica is gone")
