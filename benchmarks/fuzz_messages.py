"""Hostile messages, made from good ones by a seeded generator: what a peer might send."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import numpy as np

from shared.stream import codec, messages
from shared.stream.messages import Envelope, Message

_ARRAYS: dict[str, np.ndarray] = {
    "mel": np.linspace(-11, 2, 24, dtype=np.float32).reshape(2, 3, 4),
    "rows": np.array([3, 5], np.int32),
    "empty": np.zeros((0, 2), np.int64),
}
GOOD_MESSAGES: tuple[Message, ...] = (
    messages.Hello("data_worker-0", 12, "index", "plan", "fake", "2.21.0", 8),
    messages.Hello(
        "data_worker-1",
        12,
        "index",
        "plan",
        "fake",
        "2.21.0",
        8,
        {"soxr": "1.1"},
        "name",
        9,
        1 << 20,
    ),
    messages.BatchReady(7, 2, {"decode": 1.5, "features": 20.0}, 0.5, _ARRAYS),
    messages.BatchReady(8, 0, {}, 0.0, {}),
    messages.CannotRead(7, 3, "café.wav: is gone"),
    messages.Goodbye("stopped"),
    messages.Welcome("data_worker-0"),
    messages.Refused("another run"),
    messages.Introduce(),
    messages.Exclude(1, [[3, 7], [4, 9], [5, 9, 10]]),
    messages.MakeBatch(12, 1),
    messages.StopProducing("finished"),
)
HOSTILE_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63, 2**64 - 1, -(2**63),
    0.5, 1e308, float("nan"), float("inf"), "", "x", "x" * 5000, "\0", "🎯" * 50, b"", b"\xff" * 40,
    b"x" * 9000, [], [[]], [[1, 2]], [1] * 300, [[-1, 2]], {}, {"": 1}, {"a": {"b": {}}},
    [["a", "<f4", [-1]]], [["a", "O", [2]]], [["a", "<f4", [2**32, 2**32]]], "|O8", "(2,)<f4",
    msgpack.ExtType(5, b"code"), "../../etc/passwd",
)  # fmt: skip
# The first bytes of msgpack's types, and the ends of their ranges.
INTERESTING_BYTES = bytes.fromhex("00017f808f909fa0c0c1c4c7c9d9dbdcdddedfff")


def frames_of(message: Message, run: str = "run", session: str = "session") -> list[bytes]:
    return [bytes(frame) for frame in codec.encode(Envelope(run, session, 1, message))]


_GOOD_FRAMES = [frames_of(message) for message in GOOD_MESSAGES]
# The same batch where it lies in shared memory: in its first slot, and where no slot begins.
_GOOD_FRAMES += [
    [bytes(f) for f in codec.encode(Envelope("run", "session", 1, GOOD_MESSAGES[2]), place)]
    for place in (lambda block: 4096, lambda block: 4097)
]


def damaged_message(rng: random.Random) -> list[bytes]:
    """The frames of a message that was good once, or never."""
    frames = list(rng.choice(_GOOD_FRAMES))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        frames = rng.choice(_DAMAGES)(frames, rng)
    return frames


def with_hostile_value(frames: list[bytes], rng: random.Random) -> list[bytes]:
    """Another value in the header, one of its fields, or the description of the arrays."""
    try:
        header = msgpack.unpackb(frames[0])
    except (ValueError, IndexError, msgpack.exceptions.UnpackException):
        return frames
    if not isinstance(header, dict) or not header:
        return frames
    target = header
    fields = header.get("fields")
    if isinstance(fields, dict) and fields and rng.random() < 0.6:
        target = fields
    key = rng.choice(sorted(target, key=str))
    value = rng.choice(HOSTILE_VALUES)
    if key == "arrays" and rng.random() < 0.7:
        value = msgpack.packb([[rng.choice(("a", "", 3)), rng.choice(("<f4", "|u1", "O", ">f4")),
                                [rng.choice((0, 1, 2, -1, 2**40)) for _ in range(rng.randrange(6))]]
                               for _ in range(rng.randrange(4))])  # fmt: skip
    target[key] = value
    if rng.random() < 0.1:
        target[rng.choice(("more", "__class__", "tag"))] = rng.choice(HOSTILE_VALUES)
    return [msgpack.packb(header), *frames[1:]]


def with_changed_bytes(frames: list[bytes], rng: random.Random) -> list[bytes]:
    if not frames:
        return frames
    number = rng.randrange(len(frames))
    content = bytearray(frames[number])
    for _ in range(rng.randrange(1, 5)):
        if content:
            place = rng.randrange(len(content))
            content[place] = rng.choice((content[place] ^ 1 << rng.randrange(8),
                                         rng.choice(INTERESTING_BYTES)))  # fmt: skip
    return [*frames[:number], bytes(content), *frames[number + 1 :]]


def with_cut_or_growth(frames: list[bytes], rng: random.Random) -> list[bytes]:
    if not frames:
        return frames
    number = rng.randrange(len(frames))
    content = frames[number]
    place = rng.randrange(len(content) + 1)
    piece = rng.choice((b"", content[place:], rng.randbytes(rng.randrange(1, 20))))
    changed = content[:place] + piece + rng.choice((b"", content[place:]))
    return [*frames[:number], changed, *frames[number + 1 :]]


def with_other_frames(frames: list[bytes], rng: random.Random) -> list[bytes]:
    kind = rng.randrange(5)
    if kind == 0:
        return frames[:-1]
    if kind == 1:
        return [*frames, *frames]
    if kind == 2:
        return [*frames[:1], *rng.choice(_GOOD_FRAMES)[1:]]
    if kind == 3:
        return [rng.randbytes(rng.randrange(80)) for _ in range(rng.randrange(4))]
    return [bytes([rng.choice(INTERESTING_BYTES)]) * rng.choice((1, 40, 1100)), *frames[1:]]


_DAMAGES = (with_hostile_value, with_hostile_value, with_changed_bytes, with_cut_or_growth,
            with_other_frames)  # fmt: skip
