"""`python -m model_worker.checks.pace_check`: the model process's part in `launcher.py bench`.

Measures what a run's own parts can do when they don't overlap: batch and step in turns
(sequential), batches without steps (data), steps on batches that are already here (model).
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from model_worker.surroundings import Surroundings
from shared.clock import machine_s
from shared.config.settings import Config
from shared.diagnosis.pace import WARM_UP_BATCHES_PER_SHAPE, PaceMeter
from shared.stream.endpoints import check_endpoint, default_endpoint, remove_socket
from shared.worker.contract import EXIT_INTERRUPTED, STARTING
from shared.worker.reports import Pace, Reporter
from shared.worker.start import (
    StopFlag,
    begin_worker,
    fix_gpu,
    open_run,
    run_worker,
    start_tensorflow,
    worker_parser,
)

if TYPE_CHECKING:
    from model_worker.checks.measuring_session import MeasuringSession
    from model_worker.stream.device_prefetch import DeviceBatch, DevicePrefetch
    from model_worker.training.step import TrainStep

    _MakeSession = Callable[[Config], MeasuringSession]

WHAT = ("sequential", "data", "model")
_STARTING_DEADLINE_S = 1800.0
_MEASURING_DEADLINE_S = 300.0
_WAIT_S = 0.5
_RATE = 1e-4  # of learning: a step costs the same at any
_WAIT_EVERY_STEPS = 5  # for the device, as a run does when it logs
# Batches that stay on the device for the model's own pace: as many as a queue would hold.
_MOST_KEPT, _MOST_KEPT_BYTES = 50, 512 << 20

_ShouldStop = Callable[[], bool]


def main() -> int:
    begin_worker()
    return run_worker(_work)


def _work(reporter: Reporter) -> int:
    parser = worker_parser("python -m model_worker.checks.pace_check", "--listen")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--what", nargs="+", choices=WHAT, default=list(WHAT))
    flags = parser.parse_all(sys.argv[1:])
    reporter.phase(STARTING, _STARTING_DEADLINE_S)
    run, config = open_run(flags)
    lock = run.lock("model process")
    should_stop = StopFlag()
    device_kind = fix_gpu("model", flags, config)
    endpoint = check_endpoint(flags.endpoint or default_endpoint(config.run.wire_id))
    start_tensorflow("model", device_kind, config)
    make_session = _session_maker(
        Surroundings(run, config, endpoint, None, device_kind, reporter, should_stop)
    )
    try:
        _measure(make_session, config, flags, reporter, should_stop)
    finally:
        remove_socket(endpoint)
        os.close(lock)
    return EXIT_INTERRUPTED if should_stop() else 0


def _session_maker(surroundings: Surroundings) -> _MakeSession:
    # Imports TensorFlow, whose device had to be settled first.
    from model_worker.checks.measuring_session import MeasuringSession
    from shared.run.writer import Writer

    writer = Writer(surroundings.run)  # one for all sessions: a second would take the first's place
    return lambda config: MeasuringSession(
        dataclasses.replace(surroundings, config=config), machine_s(), writer
    )


def _measure(
    make_session: _MakeSession,
    config: Config,
    flags: argparse.Namespace,
    reporter: Reporter,
    should_stop: _ShouldStop,
) -> None:
    session = make_session(config)
    step = session.make_step()
    _warm_up(session, step, config.data.max_buckets, should_stop)
    if "sequential" in flags.what:
        # A bound of one, freed only after the step: nothing is made while the model trains.
        data = dataclasses.replace(config.data, pipeline_buffer_size=1)
        one_by_one = make_session(dataclasses.replace(config, data=data))
        with one_by_one.stream() as (receiver, prefetch):
            meter = PaceMeter(flags.seconds, session.unit)
            for batch in _batches(prefetch, meter, should_stop):
                step(batch.tensors, 0, _RATE)
                step.num_nonfinite.numpy()  # waits for the device
                receiver.taken()
                _note(meter, batch, session, reporter)
        reporter.tell(Pace("sequential", meter.pace()))
    kept: list[DeviceBatch] = []
    with session.stream() as (receiver, prefetch):
        meter, kept_bytes = PaceMeter(flags.seconds, session.unit), 0
        for batch in _batches(prefetch, meter, should_stop):
            receiver.taken()
            size = sum(array.nbytes for array in batch.received.arrays.values())
            if not kept or (len(kept) < _MOST_KEPT and kept_bytes + size <= _MOST_KEPT_BYTES):
                kept.append(batch)
                kept_bytes += size
            _note(meter, batch, session, reporter)
    if "data" in flags.what:
        reporter.tell(Pace("data", meter.pace()))
    if "model" in flags.what and kept:
        meter, number = PaceMeter(flags.seconds, session.unit), 0
        while not meter.is_over and not should_stop():
            batch = kept[number % len(kept)]
            number += 1
            step(batch.tensors, 0, _RATE)
            if number % _WAIT_EVERY_STEPS == 0:
                step.num_nonfinite.numpy()
            _note(meter, batch, session, reporter)
        reporter.tell(Pace("model", meter.pace()))


def _warm_up(
    session: MeasuringSession, step: TrainStep, num_shapes: int, should_stop: _ShouldStop
) -> None:
    """The first batch of a shape costs both sides more than all that follow: pay that now."""
    with session.stream() as (receiver, prefetch):
        num_done, most = 0, WARM_UP_BATCHES_PER_SHAPE * num_shapes
        while num_done < most and not should_stop():
            batch = prefetch.get(_WAIT_S)
            if batch is not None:
                receiver.taken()
                step(batch.tensors, 0, _RATE)
                num_done += 1


def _batches(
    prefetch: DevicePrefetch, meter: PaceMeter, should_stop: _ShouldStop
) -> Iterator[DeviceBatch]:
    while not meter.is_over and not should_stop():
        batch = prefetch.get(_WAIT_S)
        if batch is not None:
            yield batch


def _note(
    meter: PaceMeter, batch: DeviceBatch, session: MeasuringSession, reporter: Reporter
) -> None:
    if session.has_new_share():
        if session.busy_share is not None:
            meter.note_busy(session.busy_share)
        reporter.phase("measuring", _MEASURING_DEADLINE_S)
    meter.note(batch.amount.real)


if __name__ == "__main__":
    sys.exit(main())
