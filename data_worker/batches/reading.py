"""One example from its file: what the disk brings first, then the task's own reading of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.errors import ReadError, TandemError
from shared.task import DataSide, Indexed
from shared.task.users_file import users_words

# What storage says when it may answer better a second later. ENOENT is here because network
# mounts lose sight of files for a moment.
TRANSIENT_ERRNOS = frozenset(
    {
        errno.EAGAIN, errno.EBUSY, errno.ECONNRESET, errno.EHOSTDOWN, errno.EINTR, errno.EIO,
        errno.EMFILE, errno.ENFILE, errno.ENOENT, errno.ENOMEM, errno.ENOTCONN, errno.ESTALE,
        errno.ETIMEDOUT,
    }
)  # fmt: skip
# Small enough that slow storage, shared by many readers, brings one of them within a second or two.
_PIECE_BYTES = 1 << 16
_MOST_FETCHED_BYTES = 1 << 26

OnPiece = Callable[[], None]


def make_loader(
    task: DataSide, example_of: Callable[[int], Indexed], convicted: dict[int, str]
) -> Callable[[int, OnPiece], Any]:
    """A function from a row of the index to what the task reads of it.

    Its second argument is called for every piece of the file that has come from the disk. Rows in
    `convicted` are not touched: reading them is known to end in that signal.
    """

    def load(row: int, on_piece: OnPiece) -> Any:
        example = example_of(row)
        if row in convicted:
            raise ReadError(
                f"{example.path}: decoding it crashes the process ({convicted[row]}). "
                "Convert the file again, or take it out of the data."
            )
        fetch(example.path, on_piece)
        try:
            return task.read(example)
        except (TandemError, MemoryError):
            raise
        except OSError as error:
            raise unreadable(example.path, error) from error
        except Exception as error:
            words = users_words(error) or f"{type(error).__name__}: {error}"
            raise ReadError(f"{example.path}: can't be read: {words}") from error

    return load


def fetch(path: Path, on_piece: OnPiece) -> None:
    """Have the system hold a file's first bytes, so that decoding does not wait for the disk.

    Whoever measures can then tell the two apart, and whoever watches sees that slow storage does
    move; a second look at cached pages costs next to nothing. What goes wrong here goes wrong
    again for who reads the file, and is said there.
    """
    try:
        # O_NONBLOCK: a named pipe put in the file's place would block the reader for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return
        for offset in range(0, min(status.st_size, _MOST_FETCHED_BYTES), _PIECE_BYTES):
            piece = os.pread(descriptor, _PIECE_BYTES, offset)
            on_piece()
            if len(piece) < _PIECE_BYTES:
                return
    except OSError:
        return
    finally:
        os.close(descriptor)


def unreadable(path: Path, error: OSError) -> ReadError:
    """An error of the system in a sentence, and whether it may pass."""
    return ReadError(
        f"{path}: can't be read ({error.strerror or error}). Check the disk and the file's "
        f"permissions.",
        transient=error.errno in TRANSIENT_ERRNOS,
    )
