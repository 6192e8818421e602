"""`launcher.py watch RUN`: the live view of a run that goes on, from any other shell."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from pathlib import Path

from shared.config.flags import PlainParser
from shared.config.installation import PROGRAM
from shared.console.json_output import stdout_for_json_alone, write_json
from shared.console.progress_line import can_draw
from shared.console.run_words import state_lines
from shared.console.say import say_plainly
from shared.errors import ConfigError, InputError
from shared.launching.run_record import View
from shared.run.directory import RunDirectory
from shared.status.run_state import RunState, State, the_run
from shared.status.run_status import RunStatus
from shared.status.summary import runs_below
from shared.status.watched import Watched

_EVERY_S = 0.5
_LINES_BEFORE = 8  # of the story, that a watcher begins with
_LAST_PORT = 65535
_NICE = 10  # who only watches gives way to who trains


def watch_parser() -> PlainParser:
    """The flags of the command."""
    parser = PlainParser(
        prog=f"{PROGRAM} watch",
        usage=f"{PROGRAM} watch RUN [RUN ...] [--web [PORT]] [--json]",
        description="Show a run that is going on. Ctrl-C leaves it alone.",
    )
    parser.add_argument(
        "runs", metavar="RUN", nargs="+",
        help="run directory, such as runs/NAME; with --web several, or a folder of them",
    )  # fmt: skip
    parser.add_argument(
        "--web", metavar="PORT", nargs="?", const="0",
        help="serve the report as a live page, for this machine alone [any free port]",
    )  # fmt: skip
    parser.add_argument(
        "--web-host", metavar="ADDRESS",
        help="serve it at this address, for other machines too: anyone with the link can look",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line, whenever something changes"
    )
    return parser


def main(arguments: list[str]) -> int:
    """Watch until the run ends; returns 1 where it failed."""
    flags = watch_parser().parse_all(arguments)
    if flags.web is not None or flags.web_host is not None:
        return _on_the_web(flags.runs, flags.web or "0", flags.web_host)
    if len(flags.runs) > 1:
        raise InputError("Several runs can be watched with --web. Name one without it.")
    run = the_run(flags.runs[0])
    _give_way()
    found = _in_json(run) if flags.json else _in_the_terminal(run)
    return 1 if found.state is State.FAILED else 0


def _give_way() -> None:
    with contextlib.suppress(OSError):
        os.nice(_NICE)


def _on_the_web(named: list[str], port: str, host: str | None) -> int:
    """Serve a page of these runs, finished ones too, until Ctrl-C."""
    if not port.isdecimal() or int(port) > _LAST_PORT:
        raise ConfigError(f"--web: found {port!r}; expected a port from 0 to {_LAST_PORT}.")
    paths = [Path(name) for name in named]
    for path in paths:
        if not any(runs_below(path)):
            the_run(str(path))  # says what it is instead
    _give_way()
    from shared.console.web.serve import LOOPBACK, serve

    serve(paths, host or LOOPBACK, int(port))
    return 0


def _in_json(run: RunDirectory) -> RunState:
    out, watched = stdout_for_json_alone(), Watched(run)
    seen: object = None
    while True:
        found = watched.look()
        beat = (found.state, found.status.session, found.status.beat) if found.status else found
        if beat != seen:
            seen = beat
            status = dataclasses.asdict(found.status) if found.status else None
            write_json(
                out,
                {"run": str(run.path), "state": found.state, "why": found.why, "status": status},
            )
        if not found.state.is_going_on:
            return found
        time.sleep(_EVERY_S)


def _in_the_terminal(run: RunDirectory) -> RunState:
    watched = Watched(run)
    found = watched.look()
    if found.state.is_going_on and found.status is not None:
        for line in found.status.lines[-_LINES_BEFORE:]:
            say_plainly(line.text)
        try:
            with _view(run, found.status) as view:
                while found.state.is_going_on:
                    time.sleep(_EVERY_S)
                    found = watched.look()
                    if found.status is not None:
                        view.show(found.status)
        except KeyboardInterrupt:
            say_plainly(f"👋 The run goes on. '{PROGRAM} stop {run.path}' would save and end it")
            return found
    say_plainly(state_lines(found, str(run.path)))
    return found


def _view(run: RunDirectory, status: RunStatus) -> contextlib.AbstractContextManager[View]:
    if can_draw(sys.stdout):
        from shared.console.live_view import LiveView

        return LiveView(status, title=f"tandem · {run.path}")
    from shared.console.plain_lines import PlainLines

    return contextlib.nullcontext(PlainLines(say_plainly, status))
