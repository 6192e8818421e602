"""What happens to a run, in words, as its terminal, its log and its report tell it."""

from __future__ import annotations

from shared.run.event_log import Ended, Restarted
from shared.status.run_state import RunState, State
from shared.status.run_status import RunStatus
from shared.worker.contract import EXIT_FINISHED, EXIT_INTERRUPTED


def restart_in_words(event: Restarted) -> str:
    """A worker's death, and what becomes of its work."""
    how = "its spare takes over" if event.by_spare else "starting it again"
    return f"⚠️  {event.cause}; {how}"


def ending_in_words(event: Ended, run_dir: str, next_step: str = "") -> str:
    """How a command ended, and where to go from there."""
    if event.exit_code == EXIT_FINISHED:
        after = f"\n   {next_step}" if next_step else ""
        return f"🏁 Finished. Everything is in {run_dir}{after}"
    if event.exit_code == EXIT_INTERRUPTED:
        cause = f"{event.cause[:1].upper()}{event.cause[1:]}"
        return f"⏹  {cause}. The same command with --run-dir {run_dir} goes on from there"
    return f"❌ {event.cause}\n   Logs: {run_dir}"


def tally(status: RunStatus) -> str:
    """What has gone wrong in a run so far."""
    return f"left out {status.left_out} · restarts {status.restarts}"


def state_in_words(found: RunState, run_dir: str) -> str:
    """How a run is, in a sentence, for who looks at it from elsewhere."""
    if found.ended is not None:
        return ending_in_words(found.ended, run_dir)
    if found.state is State.PREPARED:
        return f"{run_dir} is prepared; it is not being trained yet"
    return f"❌ {run_dir}: {found.why}" if found.why else f"{run_dir} is {found.state}"


def without_sign(line: str) -> str:
    """A line of the terminal without the sign in front of it, if it has one."""
    sign, _, words = line.partition(" ")
    return words.lstrip() if sign and not sign[0].isalnum() else line
