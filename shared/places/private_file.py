"""A file that only a process and its children can read, and that is on no disk."""

from __future__ import annotations

import os


def private_file(text: str) -> int:
    """A descriptor of it, which the caller closes; whoever is handed it reads /proc/self/fd/N."""
    descriptor = os.memfd_create("tandem-private", os.MFD_CLOEXEC)
    os.fchmod(descriptor, 0o600)
    os.write(descriptor, text.encode())
    return descriptor
