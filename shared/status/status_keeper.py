"""Makes a run's status from what its workers tell and what happens to them."""

from __future__ import annotations

import dataclasses
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from shared.diagnosis.trend import trend
from shared.run.event_log import Ended, Restarted
from shared.run.record_numbers import finite_number
from shared.status.presence import own_presence
from shared.status.run_status import HISTORY_S, LaneStatus, Preparing, RunStatus, StoryLine
from shared.worker.names import Role, number_of, role_of
from shared.worker.reports import Busy, LineKind, Metrics, Phase, Placed, Report

_LOSSES = 400
_LINES = 40
_LONGEST_LINE = 2000


@dataclasses.dataclass
class _Lane:
    """One worker over time: its phase, and how busy its device has been."""

    phase: str
    since_s: float
    shares: deque[float] = dataclasses.field(default_factory=lambda: deque(maxlen=HISTORY_S))
    busy: Busy = dataclasses.field(default_factory=lambda: Busy(0.0))
    host: str = ""


class StatusKeeper:
    """Keeps the status of a run. Safe to use from several threads."""

    def __init__(
        self,
        buffer_size: int,
        started_s: float,
        data_device: str = "GPU",
        model_device: str = "GPU",
        takes_signals: bool = True,
        now: Callable[[], float] = time.time,
    ):
        """`takes_signals`: whether SIGTERM makes this process save and end."""
        self._now = now
        self._lock = threading.RLock()  # a signal's handler may come in between
        self._lanes: dict[str, _Lane] = {}
        self._losses: deque[float] = deque(maxlen=_LOSSES)
        self._lines: deque[StoryLine] = deque(maxlen=_LINES)
        self._status = RunStatus(
            session=secrets.token_hex(8),
            presence=own_presence(),
            takes_signals=takes_signals,
            started_s=started_s,
            written_s=0.0,
            beat=0,
            buffer_size=buffer_size,
            data_device=data_device,
            model_device=model_device,
        )

    def status(self) -> RunStatus:
        """The run as it is now."""
        with self._lock:
            beat = self._status.beat + 1
            self._status = dataclasses.replace(
                self._status,
                written_s=round(self._now(), 3),
                beat=beat,
                lanes=tuple(_lane_status(n, lane) for n, lane in sorted(self._lanes.items())),
                loss=self._losses[-1] if self._losses else None,
                loss_trend=trend(self._losses),
                lines=tuple(self._lines),
            )
            return self._status

    def preparing(self, what: str = "", done: int = 0, total: int = 0) -> None:
        """The data is being looked at."""
        self._set(preparing=Preparing(what, done, total))

    def training(self, left_out: int) -> None:
        """The data has been looked at; so many examples were left out."""
        self._set(preparing=None, left_out=left_out)

    def stopping(self) -> None:
        self._set(is_stopping=True)

    def end(self, ended: Ended) -> None:
        self._set(ended=ended, preparing=None)

    def event(self, event: Restarted) -> None:
        """A worker was replaced."""
        with self._lock:
            self._status = dataclasses.replace(self._status, restarts=self._status.restarts + 1)

    def say(self, text: str, kind: LineKind = LineKind.STORY) -> None:
        """A line of the run's story."""
        with self._lock:
            number = self._lines[-1].number + 1 if self._lines else 1
            self._lines.append(StoryLine(number, self._now(), text[:_LONGEST_LINE], kind))
            if kind is LineKind.LEFT_OUT:
                left_out = self._status.left_out + 1
                self._status = dataclasses.replace(self._status, left_out=left_out)

    def report(self, worker: str, report: Report) -> None:
        """What a worker has told; others than the two sides, such as a spare, have no lane."""
        if role_of(worker) not in (Role.DATA, Role.MODEL):
            return
        with self._lock:
            if worker not in self._lanes:
                self._lanes[worker] = _Lane(LaneStatus(worker).phase, self._now())
            lane = self._lanes[worker]
            if isinstance(report, Phase):
                if report.name != lane.phase:
                    lane.phase, lane.since_s = report.name, self._now()
            elif isinstance(report, Busy):
                if report.share is not None:
                    lane.shares.append(round(report.share, 3))
                lane.busy = report
                if report.queue_depth is not None and not _is_further_replica(worker):
                    self._replace(queue_depth=report.queue_depth)
            elif isinstance(report, Placed):
                lane.host = report.host
            elif isinstance(report, Metrics):
                self._take_numbers(report)

    def _take_numbers(self, report: Metrics) -> None:
        loss, validation = (finite_number(report.record, name) for name in ("loss", "val_loss"))
        if report.outlook is None:
            if validation is not None:
                self._replace(val_loss=validation)
            return
        self._replace(record=report.record, outlook=report.outlook, told_s=self._now())
        self._replace(queue_depth=int(finite_number(report.record, "queue_depth") or 0))
        if loss is not None:
            self._losses.append(loss)

    def _set(self, **changes: Any) -> None:
        with self._lock:
            self._replace(**changes)

    def _replace(self, **changes: Any) -> None:
        self._status = dataclasses.replace(self._status, **changes)


def _lane_status(worker: str, lane: _Lane) -> LaneStatus:
    busy = lane.busy
    return LaneStatus(
        worker, lane.phase, lane.since_s, tuple(lane.shares), busy.memory_mb, busy.cached,
        busy.to_cache, busy.queue_depth if _is_further_replica(worker) else None,
        lane.host,
    )  # fmt: skip


def _is_further_replica(worker: str) -> bool:
    """The first one, which has a number no more than an only one has, stands for the run."""
    return role_of(worker) is Role.MODEL and number_of(worker) > 0
