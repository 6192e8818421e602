"""`python -m model_worker --run runs/NAME`: the model process of a run."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time

from shared.clock import machine_s
from shared.config.settings import Config
from shared.run.directory import RunDirectory
from shared.run.event_log import Ended, EventLog, RunEvent, Started
from shared.stream.endpoints import check_endpoint, default_endpoint, remove_socket
from shared.stream.keys import load_server_keys
from shared.worker.contract import (
    EXIT_FINISHED,
    EXIT_INTERRUPTED,
    ROLE_VARIABLE,
    START_VARIABLE,
    STARTING,
)
from shared.worker.process_guard import keep_freed_memory
from shared.worker.reports import Reporter
from shared.worker.start import (
    StopFlag,
    begin_worker,
    fix_gpu,
    open_run,
    run_worker,
    say_memory,
    start_tensorflow,
    worker_parser,
)

log = logging.getLogger("model_worker")

_STARTING_DEADLINE_S = 300.0
_ENDINGS = {EXIT_FINISHED: "finished", EXIT_INTERRUPTED: "interrupted; the checkpoint is saved"}


def main() -> int:
    begin_worker()
    keep_freed_memory()
    code = run_worker(_work)
    if code == EXIT_INTERRUPTED:
        logging.shutdown()
        os._exit(code)  # a picture that is still being drawn must not hold up a stop
    return code


def _work(reporter: Reporter) -> int:
    flags = worker_parser("python -m model_worker", "--listen").parse_all(sys.argv[1:])
    reporter.phase(STARTING, _STARTING_DEADLINE_S)
    started_s = float(os.environ.get(START_VARIABLE) or machine_s())
    run, config = open_run(flags)
    lock = run.lock("model process")
    should_stop = StopFlag(starting=True)
    device_kind = fix_gpu("model", flags, config)
    endpoint = flags.endpoint or config.run.endpoint or default_endpoint(config.run.run_id)
    key_path = flags.keys or config.run.keys
    endpoint = check_endpoint(endpoint, has_keys=bool(key_path))
    keys = load_server_keys(key_path) if key_path else None
    start_tensorflow("model", device_kind, config)
    say_memory("model", device_kind, config, reporter)

    # Everything below imports TensorFlow, whose device had to be settled first.
    from model_worker.model_process import Session

    session = Session(run, config, endpoint, keys, device_kind, reporter, should_stop, started_s)
    try:
        by_hand = ROLE_VARIABLE not in os.environ  # else the launcher tells all this
        if by_hand:
            _note(run, Started(time.time()))
        while (code := session.train()) is None:
            log.info("rolled back; training again from the last checkpoint")
            should_stop.now_starting()
        if by_hand:
            _note(run, Ended(time.time(), code, _ENDINGS[code]))
            _tell_end(run, config, code, reporter)
        return code
    finally:
        remove_socket(endpoint)
        os.close(lock)


def _note(run: RunDirectory, event: RunEvent) -> None:
    with contextlib.closing(EventLog(run.events)) as events:
        events.add(event)


def _tell_end(run: RunDirectory, config: Config, code: int, reporter: Reporter) -> None:
    """What the launcher leaves and says at a run's end, for a process that was started by hand."""
    from shared.console.leave_report import leave_report

    words = f"🏁 Finished. Everything is in {run.path}"
    if code == EXIT_INTERRUPTED:
        words = "⏹  Interrupted; the checkpoint is saved. The same command goes on from there"
    elif config.run.report:  # a stop is to be quick
        leave_report(run, reporter.say)
    reporter.say(words)


if __name__ == "__main__":
    sys.exit(main())
