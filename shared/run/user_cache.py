"""Where what is found out once on a machine is kept for the next run."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache(kind: str, fallback: Path | None = None) -> Path | None:
    """A folder to write in: in $TANDEM_CACHE, the user's cache folder, or `fallback`."""
    environment = os.environ
    wanted = []
    if environment.get("TANDEM_CACHE"):
        wanted.append(Path(environment["TANDEM_CACHE"]))
    else:
        if environment.get("XDG_CACHE_HOME"):
            wanted.append(Path(environment["XDG_CACHE_HOME"]) / "tandem")
        elif environment.get("HOME"):
            wanted.append(Path(environment["HOME"]) / ".cache" / "tandem")
        if fallback is not None:
            wanted.append(fallback / ".tandem-cache")
    for folder in wanted:
        try:
            folder = folder / kind
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return None
