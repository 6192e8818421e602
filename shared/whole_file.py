"""Files that are there whole or not at all: written beside their place, and renamed."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def whole_file(
    path: str | os.PathLike[str], durable: bool = True, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """A file to write into, which takes its place once it is left without an exception.

    Args:
        path: that place.
        durable: it is to outlive the machine, once it is left.
        mode: who may open it, less the umask.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(beside, flags, mode), "w+b") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
