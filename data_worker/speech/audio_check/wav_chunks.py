"""What a wav file's own chunks claim, held against the size of the file.

Libraries read a wav that was cut short without a word; the preparation must not.
"""

from __future__ import annotations

from typing import BinaryIO, Literal

_MAX_CHUNKS = 1_000
_UNKNOWN = 0xFFFFFFFF


def find_damage(file: BinaryIO, size: int) -> str:
    """Why a wav file is not whole, or an empty string; files of other kinds are never damaged."""
    file.seek(0)
    head = file.read(12)
    if len(head) < 12 or head[:4] not in (b"RIFF", b"RIFX", b"RF64") or head[8:12] != b"WAVE":
        return ""
    order: Literal["big", "little"] = "big" if head[:4] == b"RIFX" else "little"
    at, long_size, has_format = 12, None, False
    for _ in range(_MAX_CHUNKS):
        file.seek(at)
        chunk = file.read(8)
        if len(chunk) < 8:
            break
        name, length = chunk[:4], int.from_bytes(chunk[4:], order)
        if name == b"ds64":
            long_size = int.from_bytes(file.read(16)[8:16], "little")
        has_format = has_format or name == b"fmt "
        if name == b"data":
            if length == _UNKNOWN and long_size is not None:
                length = long_size
            held = size - at - 8
            if length > held:
                return (
                    f"its header promises {length:,} bytes of audio, the file holds {held:,} "
                    f"(cut short)"
                )
            if length == 0 or held == 0:
                return "it has a header and no audio"
            return "" if has_format else "it has no format chunk"
        at += 8 + length + (length & 1)
    return "it has no audio chunk"
