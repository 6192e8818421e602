"""How replicas agree on examples that are left out: the first one decides, and all know before it counts.

An example that can't be read is found by whoever makes a batch for one of the replicas. The others may
have trained already on batches of the same step that hold it as well, or may have such batches of the
steps after it on their devices. So it is left out of the batch that could not be made, and of every
batch from a step on that nobody can have begun with yet. That batch is made again when every replica
knows. Batches in between that can't be made either are found in the same way.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator

import zmq

from model_worker.replicas.words import CannotMake, Excluded, Knows, MakeAgain, Word, decode, encode
from model_worker.stream.receiver import News
from shared.errors import ProtocolError
from shared.plan.exclusions import Exclusions
from shared.plan.plan import Plan
from shared.stream.endpoints import take_endpoint

log = logging.getLogger(__name__)

_LINGER_MS = 1000
# The one that is not whole; and while it is not, no replica has more than three further batches of
# its own on its device or on the way there, which are those of three further steps at most.
_STEPS_UNDER_WAY = 4


class FirstAgrees:
    """The first replica's side. Lives in whichever receiving thread it was begun for last."""

    def __init__(self, endpoint: str, num_replicas: int, context: zmq.Context | None = None):
        """
        Raises:
            ConfigError: another process listens there.
        """
        self._claim = take_endpoint(endpoint)
        self._num_others = num_replicas - 1
        self.socket = (context or zmq.Context.instance()).socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, _LINGER_MS)
        self.socket.bind(endpoint)

    def begin(
        self,
        session: int,
        plan: Plan,
        grad_accum: int,
        exclusions: Exclusions,
        on_exclusion: Callable[..., None],
    ) -> None:
        """Nothing of an earlier session counts any more.

        `on_exclusion(row, from_batch, reason, until_batch)` writes it down durably; it may raise.
        """
        self._session, self._plan, self._grad_accum = session, plan, grad_accum
        self._exclusions, self._on_exclusion = exclusions, on_exclusion
        self._peers: dict[int, bytes] = {}
        self._known: dict[int, int] = {}
        self._waiting: list[tuple[int, int, int]] = []  # (version, rank, batch), to be made again
        self._news: list[News] = []

    def cannot_make(self, row: int, batch: int, reason: str) -> None:
        self._decide(0, row, batch, reason)

    def news(self) -> Iterator[News]:
        while self.socket.poll(0):
            peer, *frames = self.socket.recv_multipart()
            try:
                word, _ = decode(frames)
            except ProtocolError as error:
                log.warning("%s", error)
                continue
            self._take(peer, word)
        news, self._news = self._news, []
        yield from news

    def close(self) -> None:
        self.socket.close()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def _take(self, peer: bytes, word: Word) -> None:
        if isinstance(word, Knows) and word.session == self._session:
            self._peers[word.rank], self._known[word.rank] = peer, word.version
            if word.version < self._exclusions.version:
                self._tell_what_is_missing(word.rank)
            self._make_again()
        elif isinstance(word, CannotMake) and word.session == self._session:
            for rank, known in self._peers.items():
                if known == peer:
                    self._decide(rank, word.row, word.batch, word.reason)
                    return

    def _decide(self, rank: int, row: int, batch: int, reason: str) -> None:
        if self._plan.contains(batch, row, self._exclusions):
            from_batch = self._first_of_later_step(batch)
            entries: list[tuple[int, int | None]] = [(batch, batch + 1)]
            if from_batch is not None:
                entries.append((from_batch, None))
            for first, until in entries:
                exclusions = self._exclusions.with_added(row, first, until)
                if exclusions is not self._exclusions:
                    self._on_exclusion(row, first, reason, until)
                    self._exclusions = exclusions
            for other in self._peers:
                self._tell_what_is_missing(other)
        self._news.append(News(self._exclusions, []))
        self._waiting.append((self._exclusions.version, rank, batch))
        self._make_again()

    def _first_of_later_step(self, batch: int) -> int | None:
        """Where a step begins that no replica has begun with; None if the run has none."""
        layout = self._plan.layout
        step = layout.num_train_batches_before(batch) // self._grad_accum + _STEPS_UNDER_WAY
        total = layout.total_train_batches
        if total is not None and step * self._grad_accum >= total:
            return None
        return layout.stream_index_of_train(step * self._grad_accum)

    def _tell_what_is_missing(self, rank: int) -> None:
        known = self._known[rank]
        entries = self._exclusions.to_json()[known:]
        self._tell(rank, Excluded(self._session, known, entries))

    def _make_again(self) -> None:
        """Have batches made that wait for nobody any more."""
        known = list(self._known.values())
        agreed = min(known) if len(known) == self._num_others else -1
        ready = [each for each in self._waiting if each[0] <= agreed]
        self._waiting = [each for each in self._waiting if each[0] > agreed]
        for _, rank, batch in ready:
            if rank:
                self._tell(rank, MakeAgain(self._session, batch))
            else:
                self._news.append(News(self._exclusions, [batch]))

    def _tell(self, rank: int, word: Word) -> None:
        self.socket.send_multipart([self._peers[rank], *encode(word)])


class OtherAgrees:
    """The side of any other replica, for one session, in its receiving thread."""

    def __init__(
        self,
        endpoint: str,
        session: int,
        rank: int,
        exclusions: Exclusions,
        context: zmq.Context | None = None,
    ):
        self._session, self._rank, self._exclusions = session, rank, exclusions
        self.socket = (context or zmq.Context.instance()).socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, _LINGER_MS)
        self.socket.connect(endpoint)
        self._say(Knows(session, rank, exclusions.version))

    def cannot_make(self, row: int, batch: int, reason: str) -> None:
        self._say(CannotMake(self._session, row, batch, reason))

    def news(self) -> Iterator[News]:
        while self.socket.poll(0):
            word, _ = decode(self.socket.recv_multipart())
            if isinstance(word, Excluded) and word.session == self._session:
                yield from self._learn(word)
            elif isinstance(word, MakeAgain) and word.session == self._session:
                yield News(self._exclusions, [word.batch])

    def close(self) -> None:
        self.socket.close()

    def _learn(self, word: Excluded) -> Iterator[News]:
        """What was told before is no news."""
        known = self._exclusions.to_json()
        new = word.entries[len(known) - word.version :]
        if new and word.version <= len(known):
            self._exclusions = Exclusions.from_json([*known, *new])
            yield News(self._exclusions, [])
            # By now it is done without: the receiving thread has come back for more.
            self._say(Knows(self._session, self._rank, self._exclusions.version))

    def _say(self, word: Word) -> None:
        self.socket.send_multipart(encode(word))
