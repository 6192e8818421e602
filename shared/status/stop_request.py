"""A request to stop that is left in the run directory: it reaches a launcher on another host too."""

from __future__ import annotations

from shared.run.directory import RunDirectory
from shared.run.files import write_file

_LONGEST = 100


def ask_to_stop(run: RunDirectory, session: str) -> None:
    """Ask this start of the run, and no later one, to save and end.

    Raises:
        InputError: nothing can be written there.
    """
    write_file(run.stop_request, f"{session}\n".encode(), durable=False)


def is_asked_to_stop(run: RunDirectory, session: str) -> bool:
    """Whether someone has asked this start of the run."""
    try:
        with open(run.stop_request, encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST).strip() == session
    except OSError:
        return False
