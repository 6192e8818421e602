"""Results for people: files that are there whole or not at all."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np

from shared.errors import InputError
from shared.whole_file import whole_file


def write_file(path: str | os.PathLike, content: bytes, durable: bool = True) -> None:
    """Write a file beside its place and rename it there.

    `durable`: it is to outlive the machine, once this returns.

    Raises:
        InputError: the place can't be written to.
    """
    try:
        with whole_file(path, durable) as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror}).") from None


def make_folder(path: str | os.PathLike) -> None:
    """Make a folder that can be written to, and those above it.

    Raises:
        InputError: it can't be.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: can't be made ({error.strerror}).") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(f"{path}: can't be written to.")


def npy_bytes(array: np.ndarray) -> bytes:
    """The array as a .npy file, never pickled."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()
