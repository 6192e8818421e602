"""The codec and the ledger under atheris, whose mutations follow the code's branches.

    pip install atheris
    python benchmarks/fuzz_atheris.py -runs=1000000 -max_len=512

It begins with one good message of each kind. The first byte of an input chooses the target: the
frames of a message for the codec, or a row of decisions from which the ledger's events are made.
Flags are libFuzzer's; it ends with a report when anything but ProtocolError leaves the codec, or
the ledger breaks one of its rules.
"""

import random
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

with atheris.instrument_imports(
    include=["shared.stream.codec", "model_worker.stream.ticket_ledger"]
):
    from model_worker.stream import ticket_ledger  # noqa: F401
    from shared.errors import ProtocolError
    from shared.stream import codec

from fuzz import ledger_target
from fuzz_messages import GOOD_MESSAGES, frames_of

_CODEC, _LEDGER = 0, 1


class _Decisions(random.Random):
    """A generator of numbers that gives out the bytes of an input, then ends."""

    def __init__(self, content: bytes):
        super().__init__(0)
        self._content, self._place = content, 0

    def getrandbits(self, count: int) -> int:
        size = (count + 7) // 8
        piece = self._content[self._place : self._place + size]
        if len(piece) < size:
            raise EOFError
        self._place += size
        return int.from_bytes(piece, "little") >> (8 * size - count)

    def random(self) -> float:
        return self.getrandbits(16) / 2**16


def decode_one(content: bytes) -> None:
    """The first two bytes say how many bytes the header has; the rest is the block of arrays."""
    length = int.from_bytes(content[:2], "little")
    body = content[2:]
    frames = [body[:length], body[length:]] if length < len(body) else [body]
    try:
        codec.decode(frames)
    except ProtocolError:
        pass


def run_ledger(content: bytes) -> None:
    step = ledger_target(_Decisions(content))
    try:
        while True:
            step()
    except EOFError:
        pass


def try_one(content: bytes) -> None:
    if content[:1] and content[0] % 2 == _LEDGER:
        run_ledger(content[1:])
    else:
        decode_one(content[1:])


def write_seeds(folder: Path) -> None:
    for number, message in enumerate(GOOD_MESSAGES):
        header, *rest = frames_of(message)
        content = bytes([_CODEC]) + len(header).to_bytes(2, "little") + header + b"".join(rest)
        (folder / f"message-{number}").write_bytes(content)
    for seed in range(4):
        events = random.Random(seed).randbytes(300)
        (folder / f"events-{seed}").write_bytes(bytes([_LEDGER]) + events)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as seeds:
        write_seeds(Path(seeds))
        atheris.Setup([*sys.argv, seeds], try_one)
        atheris.Fuzz()
