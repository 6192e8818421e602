"""The start delay: the queue fills before training begins, once per run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from model_worker.stream.receiver import Receiver
from shared.config.settings import Config
from shared.worker.contract import RESTART_VARIABLE, WAITING
from shared.worker.reports import Reporter

WAITING_DEADLINE_S = 10.0  # of a process that only waits, and says so every second
_WAIT_S = 0.05
_REPORT_EVERY_S = 1.0


def wait_for_start(
    receiver: Receiver,
    config: Config,
    resumed: bool,
    reporter: Reporter,
    should_stop: Callable[[], bool],
    wait: Callable[[float], object] = time.sleep,
) -> None:
    """Wait for the first data process, then, in multi-GPU mode, for the delay to pass.

    A stop ends the waiting, and so does a receiver that has failed: what it failed with is met by
    whoever asks for its first batch.
    """

    def is_off() -> bool:
        return should_stop() or receiver.has_ended

    def wait_for(condition: Callable[[], bool]) -> None:
        told_s, turns_told = 0.0, -1
        while not condition() and not is_off():
            # That this thread waits shows nothing: it is the receiver that must be alive.
            turns = receiver.num_turns
            if time.monotonic() - told_s >= _REPORT_EVERY_S and turns != turns_told:
                told_s, turns_told = time.monotonic(), turns
                reporter.progress(0)
            wait(_WAIT_S)

    reporter.phase(WAITING, WAITING_DEADLINE_S)
    wait_for(lambda: receiver.first_worker_s is not None)
    multi_gpu = config.data.data_gpu is not None
    restarted = resumed or RESTART_VARIABLE in os.environ
    delay_s = config.data.model_start_delay
    first_s = receiver.first_worker_s
    if multi_gpu and delay_s and first_s is not None and not restarted and not is_off():
        reporter.say(f"🕐 Multi-GPU Mode: Waiting {delay_s:.1f}s for data pipeline to warm up...")
        until_s = first_s + delay_s
        wait_for(lambda: time.monotonic() >= until_s)
    wait_for(lambda: receiver.queue_depth > 0)
    if not is_off():
        reporter.say("✅ Model training starting now")
