"""`python -m model_worker --run runs/NAME`: the model process of a run."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from shared.clock import machine_s
from shared.stream.endpoints import check_endpoint, default_endpoint, remove_socket
from shared.stream.keys import load_server_keys
from shared.worker.contract import (
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

if TYPE_CHECKING:
    from model_worker.model_process import Session

log = logging.getLogger("model_worker")

_STARTING_DEADLINE_S = 300.0


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
    endpoint = flags.endpoint or config.run.endpoint or default_endpoint(config.run.wire_id)
    key_path = flags.keys or config.run.keys
    endpoint = check_endpoint(endpoint, has_keys=bool(key_path))
    keys = load_server_keys(key_path) if key_path else None
    start_tensorflow("model", device_kind, config)
    say_memory("model", device_kind, config, reporter)

    # Everything below imports TensorFlow, whose device had to be settled first.
    from model_worker.model_process import Session

    session = Session(run, config, endpoint, keys, device_kind, reporter, should_stop, started_s)
    try:
        if ROLE_VARIABLE in os.environ:  # then the launcher tells how it goes
            return _train(session, should_stop)
        from model_worker.watching.by_hand import ByHand

        with ByHand(run, config, device_kind, reporter, should_stop).told() as told:
            code = _train(session, should_stop)
            told.end(code)
            return code
    finally:
        remove_socket(endpoint)
        os.close(lock)


def _train(session: Session, should_stop: StopFlag) -> int:
    while (code := session.train()) is None:
        log.info("rolled back; training again from the last checkpoint")
        should_stop.now_starting()
    return code


if __name__ == "__main__":
    sys.exit(main())
