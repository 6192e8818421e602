"""How many connections a second are let through to a listening TCP socket.

Each costs ZeroMQ and this program some 70 µs, whatever becomes of it, and nothing in ZeroMQ limits
them. So when they come in a flood, the kernel is told to overlook a share of the requests. Whoever
is overlooked asks again after a second, so that a flood of peers who wait for their answer is over
at the smallest share, while an honest one among them is only a little late. Connections that are
there already are not touched.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket as sockets
import struct

MAX_PER_S = 300
_CALM_PER_S = 100
_CALM_S = 10.0  # a flood that has only been waiting goes on at once when the door is open again
_SMALLEST_SHARE = 1 / 256
# Linux's own numbers: Python does not have them.
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_TCP_FLAGS_AT, _SYN, _SYN_OR_ACK = 13, 0x02, 0x12
_RANDOM_AT = (-0x1000 + 56) & 0xFFFFFFFF
_LOAD_BYTE, _LOAD_WORD, _AND, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x35, 0x06
_WHOLE_PACKET = 0xFFFFFFFF


class ConnectionLimit:
    """Decides which share of connections is let through. Pure: the clock comes from outside."""

    def __init__(self, num_expected: int = 0) -> None:
        """`num_expected`: peers that may come within a second, and are no flood."""
        self._num_expected = num_expected
        self.share = 1.0
        self._count = 0
        self._window_s = self._calm_since_s = 0.0

    def note(self, num_accepted: int, now_s: float) -> bool:
        """So many have come since this was last called; whether the share is another now."""
        if now_s - self._window_s >= 1.0:
            if self._count > _CALM_PER_S:
                self._calm_since_s = now_s
            self._window_s, self._count = now_s, 0
        self._count += num_accepted
        before = self.share
        if self._count > max(MAX_PER_S, 2 * self._num_expected):
            self.share = max(_SMALLEST_SHARE, self.share / 2)
            self._window_s, self._count, self._calm_since_s = now_s, 0, now_s
        elif now_s - self._calm_since_s >= _CALM_S:
            self.share = min(1.0, self.share * 2)
            self._calm_since_s = now_s
        return self.share != before


def let_through(listening: int, share: float) -> None:
    """Have the kernel let this share of connections to a listening descriptor through.

    Where it can't, all of them come.
    """
    with (
        contextlib.suppress(OSError),
        sockets.socket(fileno=os.dup(listening)) as socket,
    ):
        if share >= 1.0:
            socket.setsockopt(sockets.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            return
        program = ctypes.create_string_buffer(_program(share))
        count = len(program) // _INSTRUCTION.size
        pointer = struct.pack("HP", count, ctypes.addressof(program))
        socket.setsockopt(sockets.SOL_SOCKET, _SO_ATTACH_FILTER, pointer)


_INSTRUCTION = struct.Struct("=HBBI")  # operation, jump if true, jump if false, operand


def _program(share: float) -> bytes:
    """A socket filter in the kernel's (classic BPF) instructions.

    It looks at requests for a connection only: connections that come to be while it is there
    inherit it.
    """
    instructions = (
        (_LOAD_BYTE, 0, 0, _TCP_FLAGS_AT),
        (_AND, 0, 0, _SYN_OR_ACK),
        (_IF_EQUAL, 0, 3, _SYN),
        (_LOAD_WORD, 0, 0, _RANDOM_AT),
        (_IF_AT_LEAST, 0, 1, int(share * 2**32)),
        (_RETURN, 0, 0, 0),
        (_RETURN, 0, 0, _WHOLE_PACKET),
    )
    return b"".join(_INSTRUCTION.pack(*each) for each in instructions)
