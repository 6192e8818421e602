"""What a child process finds in its environment: the code, and who started it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from shared.config.installation import IS_CHECKOUT, PROGRAM, PROGRAM_VARIABLE, ROOT
from shared.worker.contract import PARENT_VARIABLE


def python_command(*arguments: str) -> list[str]:
    """This interpreter with these arguments; files in the current directory are no modules to it."""
    return [sys.executable, "-P", *arguments]


def child_environment(
    extra: dict[str, str], base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """This process's environment, or `base`, with what a child needs to find the code and its parent."""
    environment = {**base, **extra}
    if IS_CHECKOUT:  # installed, the interpreter finds it; and what lies there must not come first
        path = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{path}" if path else str(ROOT)
    environment[PROGRAM_VARIABLE] = PROGRAM
    environment[PARENT_VARIABLE] = str(os.getpid())
    environment["PYTHONUNBUFFERED"] = "1"
    return environment
