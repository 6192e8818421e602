"""`python -m model_worker --run runs/NAME`: the model process of a run."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from model_worker.surroundings import Surroundings
from shared.clock import machine_s
from shared.config.settings import Config
from shared.errors import InputError
from shared.stream.endpoints import (
    check_endpoint,
    default_endpoint,
    endpoint_of_replica,
    exchange_endpoint,
    remove_socket,
)
from shared.stream.keys import load_server_keys
from shared.worker.contract import (
    EXIT_INTERRUPTED,
    EXIT_TO_BEGIN_AGAIN,
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
    if code in (EXIT_INTERRUPTED, EXIT_TO_BEGIN_AGAIN):
        logging.shutdown()
        os._exit(code)  # a picture that is still being drawn must not hold up a stop, or others
    return code


def _work(reporter: Reporter) -> int:
    parser = worker_parser("python -m model_worker", "--listen")
    parser.add_argument(
        "--replica",
        type=int,
        default=0,
        metavar="N",
        help="which of the run's model GPUs this process stands for, from 0 on [0]",
    )
    flags = parser.parse_all(sys.argv[1:])
    reporter.phase(STARTING, _STARTING_DEADLINE_S)
    started_s = float(os.environ.get(START_VARIABLE) or machine_s())
    run, config = open_run(flags)
    _check_replica(flags.replica, config)
    lock = run.lock(f"model process {flags.replica}" if flags.replica else "model process")
    should_stop = StopFlag(starting=True)
    device_kind = fix_gpu("model", flags, config)
    first = config.run.endpoint or default_endpoint(config.run.wire_id)
    endpoint = flags.endpoint or endpoint_of_replica(first, flags.replica)
    key_path = flags.keys or config.run.keys
    endpoint = check_endpoint(endpoint, has_keys=bool(key_path))
    keys = load_server_keys(key_path) if key_path else None
    start_tensorflow("model", device_kind, config)
    say_memory("model", device_kind, config, reporter)

    surroundings = Surroundings(run, config, endpoint, keys, device_kind, reporter, should_stop)
    if flags.replica:
        try:
            return _follow(surroundings, flags.replica)
        finally:
            remove_socket(endpoint)
            os.close(lock)

    # Everything below imports TensorFlow, whose device had to be settled first.
    from model_worker.model_process import Session

    session = Session(surroundings, started_s)
    try:
        if ROLE_VARIABLE in os.environ:  # then the launcher tells how it goes
            return _train(session, should_stop)
        from model_worker.watching.by_hand import ByHand

        with ByHand(run, config, device_kind, reporter, should_stop).told() as told:
            code = _train(session, should_stop)
            told.end(code)
            return code
    finally:
        session.close()
        remove_socket(endpoint)
        os.close(lock)


def _train(session: Session, should_stop: StopFlag) -> int:
    while (code := session.train()) is None:
        log.info("rolled back; training again from the last checkpoint")
        should_stop.now_starting()
    return code


def _check_replica(rank: int, config: Config) -> None:
    """
    Raises:
        InputError: the run has no such replica.
    """
    count = config.data.num_model_replicas
    if not 0 <= rank < count:
        raise InputError(
            f"--replica {rank}: the run has {count} model GPU{'s' if count > 1 else ''}, so give 0"
            + (f" to {count - 1}." if count > 1 else ", or prepare it with more of them.")
        )


def _follow(surroundings: Surroundings, rank: int) -> int:
    """Train as a replica after the first, which owns all that is to be saved: a signal ends it."""
    # Imports TensorFlow, whose device had to be settled first.
    from model_worker.replicas.exchange import Spoke
    from model_worker.replicas.follower import Follower

    follower = Follower(surroundings, rank)
    spoke = Spoke(exchange_endpoint(surroundings.config.run.wire_id), rank)
    try:
        return follower.train(spoke)
    finally:
        spoke.close()


if __name__ == "__main__":
    sys.exit(main())
