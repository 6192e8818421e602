"""A spare data process: everything is loaded and compiled, and only its name is missing."""

from __future__ import annotations

import json
import logging
import os
import select
from collections.abc import Callable
from typing import NamedTuple

from shared.plan.plan import Plan
from shared.run.directory import RunDirectory
from shared.task import DataSide
from shared.worker.contract import COMPILING, STANDING_BY
from shared.worker.reports import Reporter

log = logging.getLogger(__name__)

_COMPILING_DEADLINE_S = 600.0
_STANDING_BY_DEADLINE_S = 8.0
_REPORT_EVERY_S = 1.0
_READ_BYTES = 1 << 16


def warm_up(task: DataSide, plan: Plan, reporter: Reporter) -> None:
    """Build every graph that a batch of this plan can need."""
    reporter.phase(COMPILING, _COMPILING_DEADLINE_S)
    for shape in plan.buckets:
        task.warm_up(shape)


class Order(NamedTuple):
    """Go on under this name; one of the suspects may have crashed whoever had it before."""

    name: str
    suspects: tuple[int, ...]


def wait_for_order(
    reporter: Reporter, should_stop: Callable[[], bool], descriptor: int = 0
) -> Order | None:
    """The launcher's order, one line of JSON; None when there is nobody to take over for."""
    reporter.phase(STANDING_BY, _STANDING_BY_DEADLINE_S)
    log.info(STANDING_BY)
    received = b""
    while not should_stop():
        reporter.progress(0)
        if not select.select([descriptor], [], [], _REPORT_EVERY_S)[0]:
            continue
        chunk = os.read(descriptor, _READ_BYTES)
        received += chunk
        if b"\n" in received:
            order = json.loads(received.partition(b"\n")[0])
            return Order(order["name"], tuple(order["suspects"]))
        if not chunk:
            return None
    return None


def log_as(run: RunDirectory, name: str) -> None:
    """From now on this process's output belongs into another worker's log."""
    log = os.open(run.log_of(name), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
