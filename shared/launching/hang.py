"""When a process hangs, so that it is killed; and when it is past killing."""

from __future__ import annotations

from collections.abc import Iterable

from shared.launching.watched_worker import MODEL_ROLES, WatchedWorker
from shared.worker.contract import WAITING, WAITING_FOR_REPLICAS

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
    workers = list(workers)
    if worker.phase == WAITING:
        data_workers = [each for each in workers if each.role == "data"]
        if _stand_still((worker, *data_workers), now_s):
            return f"waiting for {_STANDSTILL_S:.0f} s for data that nobody is making"
    if worker.role == "model" and worker.phase == WAITING_FOR_REPLICAS:
        models = [each for each in workers if each.role in MODEL_ROLES]
        all_wait = all(each.phase == WAITING_FOR_REPLICAS for each in models)
        if all_wait and _stand_still(models, now_s):
            return f"waiting for {_STANDSTILL_S:.0f} s for replicas that wait as well"
    return ""


def _stand_still(workers: Iterable[WatchedWorker], now_s: float) -> bool:
    """Whether none of them gets any further, though each is well by itself, and says so."""
    return all(
        worker.state == "running" and worker.at_work and now_s - worker.moved_s > _STANDSTILL_S
        for worker in workers
    )


def is_unkillable(worker: WatchedWorker, now_s: float) -> bool:
    """Whether not even SIGKILL has ended it for a while."""
    return worker.killed_s is not None and now_s - worker.killed_s > _UNKILLABLE_S
