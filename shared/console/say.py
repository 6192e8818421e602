"""One line to the terminal, whatever the terminal is."""

from __future__ import annotations

import os
import sys


def say_plainly(text: str) -> None:
    """A line to the terminal; a closed or ASCII-only standard output is no reason to end a run."""
    try:
        print(text, flush=True)
    except UnicodeEncodeError:
        print(text.encode("ascii", "replace").decode(), flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
