"""When a process hangs, so that it is killed; and when it is past killing."""

from __future__ import annotations

from collections.abc import Iterable

from shared.launching.watched_worker import WatchedWorker
from shared.worker.contract import WAITING

_STOPPED_S = 8.0  # by a signal; people who look at a process in a debugger stop it otherwise
_STANDSTILL_S = 60.0
_UNKILLABLE_S = 5.0  # after SIGKILL; the kernel waits for storage that does not answer


def hang_of(worker: WatchedWorker, workers: Iterable[WatchedWorker], now_s: float) -> str:
    """In what way one of the run's workers hangs, or nothing."""
    since_s = worker.stopped_since_s
    if since_s is not None and now_s - since_s > _STOPPED_S:
        return f"stopped by a signal for {now_s - since_s:.0f} s while {worker.phase}"
    if 0 < worker.allowed_s < now_s - worker.heard_s:
        return f"no progress for {now_s - worker.heard_s:.0f} s while {worker.phase}"
    if worker.role == "model" and _all_wait(worker, workers, now_s):
        return f"waiting for {_STANDSTILL_S:.0f} s for data that nobody is making"
    return ""


def _all_wait(model: WatchedWorker, workers: Iterable[WatchedWorker], now_s: float) -> bool:
    """Whether all wait for each other: each is well by itself, and says so."""
    data_workers = [worker for worker in workers if worker.role == "data"]
    return model.phase == WAITING and all(
        worker.state == "running" and worker.at_work and now_s - worker.moved_s > _STANDSTILL_S
        for worker in (model, *data_workers)
    )


def is_unkillable(worker: WatchedWorker, now_s: float) -> bool:
    """Whether not even SIGKILL has ended it for a while."""
    return worker.killed_s is not None and now_s - worker.killed_s > _UNKILLABLE_S
