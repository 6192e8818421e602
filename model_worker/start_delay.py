"""The start delay: the queue fills before training begins, once per run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from model_worker.receiver import Receiver
from shared.config import Config
from shared.reporting import Reporter
from shared.training_run import RESTART_VARIABLE

_WAIT_S = 0.05


def wait_for_start(
    receiver: Receiver,
    config: Config,
    resumed: bool,
    reporter: Reporter,
    should_stop: Callable[[], bool],
) -> None:
    """Wait for the first data process, then, in multi-GPU mode, for the delay to pass."""
    reporter.phase("waiting for data", 0)
    while receiver.first_worker_s is None and not should_stop():
        time.sleep(_WAIT_S)
    multi_gpu = config.data.data_gpu is not None
    restarted = resumed or RESTART_VARIABLE in os.environ
    delay_s = config.data.model_start_delay
    if multi_gpu and delay_s and not restarted and not should_stop():
        reporter.say(f"🕐 Multi-GPU Mode: Waiting {delay_s:.1f}s for data pipeline to warm up...")
        until_s = receiver.first_worker_s + delay_s
        while time.monotonic() < until_s and not should_stop():
            time.sleep(_WAIT_S)
    while receiver.queue_depth == 0 and not should_stop():
        time.sleep(_WAIT_S)
    if not should_stop():
        reporter.say("✅ Model training starting now")
