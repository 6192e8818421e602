"""status.json: the run's status beside the run, written anew about once a second while it goes on."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable

from shared.errors import InputError
from shared.run.directory import RunDirectory
from shared.run.files import write_file
from shared.run.typed_lines import decoder, encode
from shared.status.run_status import RunStatus
from shared.status.stop_request import is_asked_to_stop

_EVERY_S = 0.5
_LAST_WRITE_S = 3.0  # that storage which does not answer may hold up an end
_MOST_BYTES = 4 << 20
# What would steer the terminal of who watches somebody else's run: ESC, DEL and their like.
_CONTROLS = re.compile(rb"(?i)\\u00[01][0-9a-f]|\\u007f|\\u00[89][0-9a-f]|\x7f|\xc2[\x80-\x9f]")
_decode = decoder((RunStatus,))


class StatusWriter:
    """Writes the status from a thread of its own, so that slow storage holds up nobody.

    The same thread looks for a request to stop that was left in the run directory.
    """

    def __init__(
        self,
        run: RunDirectory,
        status: Callable[[], RunStatus],
        on_stop: Callable[[], None],
    ):
        self._run, self._status, self._on_stop = run, status, on_stop
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep_writing, name="status", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write the status once more, as the last."""
        self._is_over.set()
        self._thread.join(_LAST_WRITE_S)

    def _keep_writing(self) -> None:
        was_asked = False
        while not self._is_over.is_set():
            status = self._write()
            if not was_asked and is_asked_to_stop(self._run, status.session):
                was_asked = True
                self._on_stop()
            self._is_over.wait(_EVERY_S)
        self._write()

    def _write(self) -> RunStatus:
        status = self._status()
        # A full disk is no reason to end a run; a folder that is gone is told by others.
        with contextlib.suppress(InputError):
            write_file(self._run.status, encode(status), durable=False)
        return status


def read_status(run: RunDirectory) -> RunStatus | None:
    """What was written last; None where there is nothing, or nothing that can be read."""
    try:
        with open(run.status, "rb") as file:
            return _decode(_CONTROLS.sub(b"?", file.read(_MOST_BYTES)))
    except OSError:
        return None
