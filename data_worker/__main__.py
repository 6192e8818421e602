"""`python -m data_worker --run runs/NAME`: one data process of a run."""

from __future__ import annotations

import logging
import os
import platform
import secrets
import sys
from pathlib import Path

from shared.devices.cores import BusyMeter
from shared.stream.endpoints import (
    check_endpoint,
    connectable,
    default_endpoint,
    endpoint_of_replica,
)
from shared.stream.keys import load_client_keys
from shared.worker.contract import EXIT_INTERRUPTED, STARTING
from shared.worker.decoding_record import ReadingRecord, rows_left_behind, suspects_from_environment
from shared.worker.reports import Reporter
from shared.worker.start import (
    StopFlag,
    begin_worker,
    busy_meter,
    fix_gpu,
    open_run,
    run_worker,
    say_memory,
    start_tensorflow,
    worker_parser,
)

log = logging.getLogger("data_worker")

_STARTING_DEADLINE_S = 180.0


def main() -> int:
    begin_worker()
    return run_worker(_work)


def _name_by_hand() -> str:
    """One that no other data process has: in containers of two hosts the pids are often equal."""
    return f"{platform.node()[:32] or 'data_worker'}-{os.getpid()}-{secrets.token_hex(2)}"


def _work(reporter: Reporter) -> int:
    parser = worker_parser("python -m data_worker", "--connect")
    parser.add_argument(
        "--spare",
        action="store_true",
        help="get ready, then wait on standard input for a name to work under",
    )
    flags = parser.parse_all(sys.argv[1:])
    reporter.phase(STARTING, _STARTING_DEADLINE_S)
    run, config = open_run(flags)
    should_stop = StopFlag()
    device_kind = fix_gpu("data", flags, config)
    endpoint = flags.endpoint or config.run.endpoint or default_endpoint(config.run.wire_id)
    key_path = flags.keys or config.run.keys
    endpoint = connectable(check_endpoint(endpoint, has_keys=bool(key_path)))
    keys = load_client_keys(key_path) if key_path else None
    tf = start_tensorflow("data", device_kind, config)
    say_memory("data", device_kind, config, reporter)

    # Everything below may import TensorFlow, whose device had to be settled first.
    from data_worker.assembly import Assembly
    from data_worker.batches.crash_trial import find_guilty
    from data_worker.batches.movement import Movement
    from data_worker.stream import spare as standing_by
    from data_worker.stream.serving import DataServer, Outbox
    from shared.plan.index import Index
    from shared.stream.sockets import ClientSocket

    index = Index.load(run.index)
    parts = Assembly.of_run(Path(flags.run), config, index, device_kind, reporter.say)
    name = flags.name or _name_by_hand()
    suspects = suspects_from_environment()
    if flags.spare:
        standing_by.warm_up(parts.task, parts.plan, reporter)
        order = standing_by.wait_for_order(reporter, should_stop)
        if order is None:
            return EXIT_INTERRUPTED
        name, suspects = order
        standing_by.log_as(run, name)
        log.info("the spare (pid %d) takes over as %s", os.getpid(), name)
    convicted: dict[int, str] = {}
    with rows_left_behind(run.path) as rows:
        # The index may have become shorter since a record was left behind.
        suspects = tuple(sorted({*suspects, *(row for row in rows if 0 <= row < len(index))}))
        if suspects:
            convicted = find_guilty(suspects, config, str(run.index), reporter)
    outbox, movement, cores = Outbox(), Movement(reporter), BusyMeter()
    # Where it listens on a port, the replicas after the first listen on those after it.
    endpoints = [
        endpoint_of_replica(endpoint, rank) for rank in range(config.data.num_model_replicas)
    ]
    sockets = [
        ClientSocket(each, config.run.wire_id, keys=keys, make_memory=parts.memory)
        for each in endpoints
    ]
    with ReadingRecord.of_this_process(run.path) as record:
        maker = parts.batch_maker(outbox.put, movement, record, convicted, cores_busy=cores.latest)
        server = DataServer(
            sockets,
            parts.hello(name, tf.__version__),
            maker,
            outbox,
            reporter,
            movement,
            busy_meter(device_kind),
            should_stop,
            len(index),
        )
        reason = server.serve()
    log.info("ended: %s", reason)
    return EXIT_INTERRUPTED if should_stop() else 0  # 0 would mean: the run is over


if __name__ == "__main__":
    sys.exit(main())
