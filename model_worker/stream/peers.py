"""What is known of each peer of the stream, and what was refused of them. No socket, no ledger."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter

log = logging.getLogger(__name__)

_REFUSALS_LOGGED = 20
_REFUSALS_COUNTED_EVERY_S = 60.0
_MAX_UNMAPPED = 256  # batches of a peer, one after the other; more than can be on their way at once


@dataclasses.dataclass
class Peer:
    """A data process that was let in."""

    name: str
    pid: int
    sequence: int = 0  # of its last message; a process counts on whatever becomes of a connection
    memory: str = ""  # the name of its memory that is mapped here
    num_unmapped: int = 0  # batches in a row that lie in memory that is not mapped here
    has_delivered: bool = False
    known_exclusions: int = 0
    heard_s: float = 0.0
    asked_s: dict[int, float] = dataclasses.field(default_factory=dict)  # by ticket

    def forget_before(self, batch: int) -> None:
        """Tickets of batches that are trained: some were taken back, and are never answered."""
        for number in [number for number in self.asked_s if number < batch]:
            del self.asked_s[number]

    def bears_unmapped(self) -> bool:
        """Note one more batch in memory that is not mapped here; False when they are too many."""
        self.num_unmapped += 1
        return self.num_unmapped <= _MAX_UNMAPPED

    def is_first_delivery(self) -> bool:
        """Note a batch that was accepted."""
        is_first = not self.has_delivered
        self.num_unmapped, self.has_delivered = 0, True
        return is_first


class Refusals:
    """Counts what is refused or dropped. The first refusals are told one by one, then in sums."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._told = 0
        self._told_s = 0.0

    def note(self, reason: str) -> None:
        self.counts["refused"] += 1
        if self.counts["refused"] <= _REFUSALS_LOGGED:
            log.warning("refused a peer: %s", plain(reason))

    def tell(self, now_s: float) -> None:
        count, since_s = sum(self.counts.values()), now_s - self._told_s
        if since_s < _REFUSALS_COUNTED_EVERY_S or count == self._told:
            return
        self._told, self._told_s = count, now_s
        log.info("refused so far: %s", dict(self.counts))


def plain(text: str) -> str:
    """Words from outside as they may stand in a log or on a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text[:1000])
