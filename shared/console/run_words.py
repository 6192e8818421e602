"""What happens to a run, in words, as its terminal, its log and its report tell it."""

from __future__ import annotations

from shared.run.event_log import Ended, Restarted
from shared.status.run_state import RunState, State
from shared.status.run_status import RunStatus
from shared.worker.contract import EXIT_FINISHED, EXIT_INTERRUPTED

_SIGNS = {EXIT_FINISHED: "🏁 ", EXIT_INTERRUPTED: "⏹  "}


def restart_in_words(event: Restarted) -> str:
    """A worker's death, and what becomes of its work."""
    how = "its spare takes over" if event.by_spare else "starting it again"
    return f"{event.cause}; {how}"


def ending_in_words(event: Ended, run_dir: str) -> str:
    """How a command ended."""
    if event.exit_code == EXIT_INTERRUPTED:
        return f"{_how_it_ended(event, run_dir)}. {_how_it_goes_on(run_dir)}"
    return _how_it_ended(event, run_dir)


def ending_lines(event: Ended, run_dir: str, next_step: str = "") -> str:
    """The same on a terminal, and where to go from there."""
    after = {EXIT_FINISHED: next_step, EXIT_INTERRUPTED: _how_it_goes_on(run_dir)}.get(
        event.exit_code, f"Logs: {run_dir}"
    )
    line = f"{_SIGNS.get(event.exit_code, '❌ ')}{_how_it_ended(event, run_dir)}"
    return f"{line}\n   {after}" if after else line


def _how_it_ended(event: Ended, run_dir: str) -> str:
    if event.exit_code == EXIT_FINISHED:
        return f"Finished. Everything is in {run_dir}"
    if event.exit_code == EXIT_INTERRUPTED:
        return f"{event.cause[:1].upper()}{event.cause[1:]}"
    return event.cause


def _how_it_goes_on(run_dir: str) -> str:
    return f"The same command with --run-dir {run_dir} goes on from there"


def tally(status: RunStatus) -> str:
    """What has gone wrong in a run so far."""
    return f"left out {status.left_out} · restarts {status.restarts}"


def state_in_words(found: RunState, run_dir: str) -> str:
    """How a run is, in a sentence, for who looks at it from elsewhere."""
    if found.ended is not None:
        return ending_in_words(found.ended, run_dir)
    if found.state is State.PREPARED:
        return f"{run_dir} is prepared; it is not being trained yet"
    return f"{run_dir}: {found.why}" if found.why else f"{run_dir} is {found.state}"


def state_lines(found: RunState, run_dir: str) -> str:
    """The same on a terminal."""
    if found.ended is not None:
        return ending_lines(found.ended, run_dir)
    sign = "❌ " if found.state is State.FAILED else ""
    return f"{sign}{state_in_words(found, run_dir)}"
