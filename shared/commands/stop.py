"""`launcher.py stop RUN`: have a run save and end, as Ctrl-C at its terminal would, and wait."""

from __future__ import annotations

import os
import signal
import time

from shared.config.flags import PlainParser
from shared.config.installation import PROGRAM
from shared.console.json_output import stdout_for_json_alone, write_json
from shared.console.plain_lines import PlainLines
from shared.console.run_words import state_lines
from shared.console.say import say_plainly
from shared.errors import InputError, TandemError
from shared.run.directory import RunDirectory
from shared.status.presence import Presence, is_alive
from shared.status.run_state import RunState, State, the_run
from shared.status.run_status import RunStatus
from shared.status.stop_request import ask_to_stop
from shared.status.watched import Watched

_EVERY_S = 0.1
_GONE_WITHIN_S = 2.0  # after its last word; one that trains from Python stays


def stop_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog=f"{PROGRAM} stop",
        usage=f"{PROGRAM} stop RUN [--json]",
        description=(
            "Have a run finish its step, save and end, and wait until it has. This also works from "
            "another host that sees the run directory. Exit code 0: it is saved; 1: it failed."
        ),
    )
    parser.add_argument("run", metavar="RUN", help="run directory, such as runs/NAME")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return parser


def main(arguments: list[str]) -> int:
    """Ask, wait, and say how it ended."""
    flags = stop_parser().parse_all(arguments)
    run = the_run(flags.run)
    out = stdout_for_json_alone() if flags.json else None
    watched = Watched(run)
    found = watched.look()
    if not found.state.is_going_on or found.status is None:
        raise InputError(f"{run.path} is not going on, so there is nothing to stop.")
    _ask(run, found.status)
    found = _wait(watched, found.status)
    if out is None:
        say_plainly(state_lines(found, str(run.path)))
    else:
        code = found.ended.exit_code if found.ended else None
        write_json(
            out,
            {"run": str(run.path), "state": found.state, "why": found.why, "exit_code": code},
        )
    return 1 if found.state is State.FAILED else 0


def _ask(run: RunDirectory, status: RunStatus) -> None:
    """By a signal where that reaches it, else by a file that it looks for."""
    if status.takes_signals and _signal(run, status.presence):
        return
    try:
        ask_to_stop(run, status.session)
    except InputError as error:
        raise TandemError(
            f"The run can't be asked to stop: pid {status.presence.pid} on "
            f"{status.presence.host} can't be reached from here, and {error}"
        ) from None


def _signal(run: RunDirectory, presence: Presence) -> bool:
    try:
        process = os.pidfd_open(presence.pid)
    except OSError:
        return False
    try:
        # Looked at once it is held: the number can't become another process's any more.
        if not is_alive(presence) or not run.is_locked_by(presence.pid):
            return False
        signal.pidfd_send_signal(process, signal.SIGTERM)
        return True
    except OSError:
        return False  # another user's
    finally:
        os.close(process)


def _wait(watched: Watched, status: RunStatus) -> RunState:
    """Until it has ended, telling what it says meanwhile."""
    lines = PlainLines(say_plainly, status)
    while True:
        found = watched.look()
        if found.status is not None and found.status.session == status.session:
            lines.show(found.status)
        if not found.state.is_going_on:
            break
        time.sleep(_EVERY_S)
    until_s = time.monotonic() + _GONE_WITHIN_S
    while is_alive(status.presence) and time.monotonic() < until_s:
        time.sleep(_EVERY_S)
    return found
