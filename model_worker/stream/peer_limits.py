"""How much nonsense a peer may send before it is hung up on. Pure: the clock comes from outside."""

from __future__ import annotations

from collections import OrderedDict

# Burst and rate per second. A stranger that is honest says Hello once a second; a data process
# that is known may have made batches in good faith that are not wanted any more.
_STRANGER = (32.0, 8.0)
_KNOWN = (512.0, 64.0)
_ALL_STRANGERS = (256.0, 64.0)
# A data process says Hello while nobody listens too: a day of them may come at once.
_INTRODUCTIONS = (100_000.0, 64.0)
# What a stranger sends counts by its size too: to receive so much costs more than a small message.
_BYTES_PER_MESSAGE = 1 << 18
_MAX_REMEMBERED = 1024


class _Allowance:
    """Fills by `per_s` up to `burst`; useless messages take from it."""

    def __init__(self, burst: float, per_s: float):
        self._burst, self._per_s = burst, per_s
        self._left, self._at_s = burst, 0.0

    def take(self, now_s: float, count: float = 1.0) -> bool:
        """Whether so many were left; one that is too large for the burst may take all of it."""
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < min(count, self._burst):
            return False
        self._left = max(0.0, self._left - count)
        return True


class PeerLimits:
    """Counts useless messages, of each peer and of all strangers together.

    The second count is for peers who come back as someone else whenever they are hung up on.
    """

    def __init__(self, num_expected: int = 0) -> None:
        """`num_expected`: data processes that the run starts; each may be a stranger at first."""
        self._peers: OrderedDict[bytes, _Allowance] = OrderedDict()
        self._introduced: OrderedDict[bytes, _Allowance] = OrderedDict()
        burst, per_s = _ALL_STRANGERS
        self._strangers = _Allowance(max(burst, 4 * num_expected), max(per_s, num_expected))
        self._most_remembered = max(_MAX_REMEMBERED, 4 * num_expected)

    def bears(self, peer: bytes, is_known: bool, now_s: float, num_bytes: int = 0) -> bool:
        """Whether one more useless message from this peer is borne."""
        allowance = self._of(self._peers, peer, _KNOWN if is_known else _STRANGER)
        if is_known:
            return allowance.take(now_s)
        count = 1.0 + num_bytes / _BYTES_PER_MESSAGE
        return allowance.take(now_s, count) and self._strangers.take(now_s, count)

    def bears_introduction(self, peer: bytes, now_s: float) -> bool:
        """Whether one more introduction of a data process of this run is borne.

        Strangers have no part in it, or a flood of them would keep an honest replacement out.
        """
        return self._of(self._introduced, peer, _INTRODUCTIONS).take(now_s)

    def forget(self, peer: bytes) -> None:
        """Take nothing into account any more of a peer that has left, or is known from now on."""
        self._peers.pop(peer, None)
        self._introduced.pop(peer, None)

    def _of(
        self,
        allowances: OrderedDict[bytes, _Allowance],
        peer: bytes,
        limits: tuple[float, float],
    ) -> _Allowance:
        """The peer's own; those of whom nothing was heard for longest are dropped for it."""
        allowance = allowances.pop(peer, None) or _Allowance(*limits)
        allowances[peer] = allowance
        while len(allowances) > self._most_remembered:
            allowances.popitem(last=False)
        return allowance
