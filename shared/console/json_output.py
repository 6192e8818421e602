"""`--json`: one JSON object on standard output, and nothing else ever."""

from __future__ import annotations

import json
import os
import sys
from typing import TextIO

from shared.errors import InputError


def stdout_for_json_alone() -> TextIO:
    """The standard output; what anyone else prints goes to standard error from here on."""
    sys.stdout.flush()
    alone = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return alone


def write_json(file: TextIO, found: dict) -> None:
    """Write the object as one line.

    Raises:
        InputError: nobody reads it.
    """
    try:
        json.dump(found, file, ensure_ascii=True, allow_nan=False)
        file.write("\n")
        file.flush()
    except BrokenPipeError:
        raise InputError("nobody reads the output any more.") from None
