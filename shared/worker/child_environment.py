"""What a child process finds in its environment: the code, and who started it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from shared.worker.contract import PARENT_VARIABLE

PROJECT_ROOT = Path(__file__).resolve().parents[2]


def child_environment(
    extra: dict[str, str], base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """This process's environment, or `base`, with what a child needs to find the code and its parent."""
    environment = {**base, **extra}
    path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{PROJECT_ROOT}{os.pathsep}{path}" if path else str(PROJECT_ROOT)
    environment[PARENT_VARIABLE] = str(os.getpid())
    environment["PYTHONUNBUFFERED"] = "1"
    return environment
