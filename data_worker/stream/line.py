"""A data process's line to one model process: its session, what it has asked for, what it excludes."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable

from shared.config.installation import PROGRAM
from shared.errors import ProtocolError, TandemError, VersionError
from shared.plan.exclusions import Exclusions
from shared.stream import messages
from shared.stream.sockets import ClientSocket

log = logging.getLogger(__name__)

_HELLO_EVERY_S = 1.0
_WAITING_SAID_EVERY_S = 15.0


class Line:
    """Serves one model process at a time, through its restarts."""

    def __init__(self, socket: ClientSocket, hello: messages.Hello):
        self.socket = socket
        self.pending: set[int] = set()  # batches that it waits for
        self._hello = hello
        self._exclusions = Exclusions()
        self._next_hello_s = self._next_handshake_word_s = 0.0
        self._said_waiting_s = time.monotonic()

    def introduce(self, capacity: int) -> None:
        """Say who this is, and what it can work on at once, where it is time to."""
        now_s = time.monotonic()
        if now_s < self._next_hello_s:
            return
        self._next_hello_s = now_s + _HELLO_EVERY_S
        self.socket.send(dataclasses.replace(self._hello, capacity=capacity))
        if not self.socket.session and now_s - self._said_waiting_s > _WAITING_SAID_EVERY_S:
            self._said_waiting_s = now_s
            log.info("waiting for the model process at %s", self.socket.endpoint)

    def look_at_handshakes(self) -> None:
        """Raises TandemError when this process's key was refused."""
        now_s = time.monotonic()
        if self.socket.handshake_failed() and now_s >= self._next_handshake_word_s:
            self._next_handshake_word_s = now_s + _WAITING_SAID_EVERY_S
            log.warning(
                "the handshake with the model process at %s failed. The keys of the two sides must "
                f"come from one '{PROGRAM} keys', and both sides or neither be given --keys.",
                self.socket.endpoint,
            )

    def take_waiting(self, on_ticket: Callable[[Line, int, Exclusions], None]) -> str | None:
        """Handle what has come; a reason when the run is over.

        Raises:
            TandemError: the model process refused this one.
        """
        for received in self.socket.receive_waiting():
            reason = self._take(received, on_ticket)
            if reason is not None:
                return reason
        return None

    def _take(
        self,
        received: messages.Envelope | ProtocolError,
        on_ticket: Callable[[Line, int, Exclusions], None],
    ) -> str | None:
        if isinstance(received, VersionError):
            raise TandemError(f"the model process can't be understood: {received}")
        if isinstance(received, ProtocolError):
            log.warning("a message from the model process was not understood: %s", received)
            return None
        message = received.message
        if isinstance(message, messages.Refused):
            raise TandemError(f"the model process refused this data process: {message.reason}")
        if received.session != self.socket.session:
            self._begin_session(received.session)
        if isinstance(message, messages.MakeBatch):
            self.pending.add(message.batch)
            exclusions = self._exclusions.at_version(message.exclusions_version)
            on_ticket(self, message.batch, exclusions)
        elif isinstance(message, messages.Exclude):
            known = self._exclusions.at_version(message.version)
            self._exclusions = Exclusions.from_json([*known.to_json(), *message.entries])
        elif isinstance(message, messages.StopProducing):
            return message.reason
        elif isinstance(message, messages.Introduce):
            self._next_hello_s = 0.0
        return None

    def _begin_session(self, session: str) -> None:
        """A new model process: what the old one asked for is void."""
        if self.socket.session:
            log.info("the model process was restarted; starting its session afresh")
        self.socket.session = session
        self.pending.clear()
        self._exclusions = Exclusions()
