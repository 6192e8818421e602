"""What happens to a run, in words, as its terminal, its log and its report tell it."""

from __future__ import annotations

from shared.run.event_log import Ended, Restarted
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
