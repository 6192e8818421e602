"""A spare data process: everything is loaded and compiled, and only its name is missing."""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Callable

import numpy as np

from data_worker.audio import pad_length
from data_worker.features import FeatureExtractor
from shared.buckets import REFERENCE_FRAMES
from shared.plan import Plan
from shared.reporting import Reporter
from shared.run_directory import RunDirectory
from shared.supervision import STANDING_BY

log = logging.getLogger(__name__)

_COMPILING_DEADLINE_S = 600.0
_STANDING_BY_DEADLINE_S = 8.0
_REPORT_EVERY_S = 1.0
_MAX_ORDER_BYTES = 4096


def warm_up(extractor: FeatureExtractor, plan: Plan, reporter: Reporter) -> None:
    """Build every graph that a batch of this plan can need."""
    reporter.phase("compiling", _COMPILING_DEADLINE_S)
    for shape in plan.buckets:
        extractor.warm_up(shape.rows, shape.frames)
        rows = np.zeros((shape.rows, pad_length(REFERENCE_FRAMES)), np.float32)
        extractor.mel(rows, np.ones(shape.rows, np.int32))


def wait_for_order(
    reporter: Reporter, should_stop: Callable[[], bool], descriptor: int = 0
) -> str | None:
    """One line from the launcher, or None when there is nobody left to take over for."""
    reporter.phase(STANDING_BY, _STANDING_BY_DEADLINE_S)
    log.info(STANDING_BY)
    received = b""
    while not should_stop():
        reporter.progress(0)
        if not select.select([descriptor], [], [], _REPORT_EVERY_S)[0]:
            continue
        chunk = os.read(descriptor, _MAX_ORDER_BYTES)
        received += chunk
        if b"\n" in received:
            return received.partition(b"\n")[0].decode()
        if not chunk or len(received) > _MAX_ORDER_BYTES:
            return None
    return None


def log_as(run: RunDirectory, name: str) -> None:
    """From now on this process's output belongs into another worker's log."""
    log = os.open(run.log_of(name), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
