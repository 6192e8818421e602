"""`python -m model_worker.checks.step_check`: steps and copies of one model size, timed on this device.

One size in a process: what it takes of the device's memory is then its own, and one that finds no room
leaves the others theirs.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import time
from typing import TYPE_CHECKING

from model_worker.checks.batch_shapes import measured_shape
from model_worker.surroundings import Surroundings
from shared.clock import machine_s
from shared.task import BatchShape
from shared.worker.check_lines import Copied, Timed
from shared.worker.checking import check_main, tell
from shared.worker.reports import Reporter
from shared.worker.start import StopFlag, fix_gpu, open_run, start_tensorflow, worker_parser

if TYPE_CHECKING:
    import tensorflow as tf

    from model_worker.checks.measuring_session import MeasuringSession
    from model_worker.training.step import TrainStep

_RATE = 1e-4  # of learning: a step costs the same at any
_STEPS_PER_TURN = 5  # between two waits for the device, as many as a run does where it logs often
_COUNTED_STEPS = 5
_COPIED_MB, _COPIES = 64, 10


def _work() -> None:
    parser = worker_parser("python -m model_worker.checks.step_check", "--listen")
    parser.add_argument("--size", default="", help="of the model [the run's own]")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--copies", action="store_true", help="time copies to the device too")
    flags = parser.parse_all(sys.argv[1:])
    run, config = open_run(flags)
    if flags.size:
        task = dataclasses.replace(config.task, model_size=flags.size)
        config = dataclasses.replace(config, task=task)
    device_kind = fix_gpu("model", flags, config)
    start_tensorflow("model", device_kind, config)
    # Imports TensorFlow, whose device had to be settled first.
    from model_worker.checks.measuring_session import MeasuringSession

    reporter, should_stop = Reporter.from_environment(), StopFlag(starting=True)
    session = MeasuringSession(
        Surroundings(run, config, "", None, device_kind, reporter, should_stop),
        started_s=machine_s(),
    )
    if flags.copies and device_kind == "gpu":  # elsewhere nothing has to be copied
        for copied in _copies(session):
            tell(copied)
    tell(_timed(session, _shape(session, flags.rows), flags))


def _shape(session: MeasuringSession, rows: int) -> BatchShape:
    data = dataclasses.replace(session.config.data, batch_size=rows)
    return measured_shape(dataclasses.replace(session.config, data=data), session.index)


def _timed(session: MeasuringSession, shape: BatchShape, flags: argparse.Namespace) -> Timed:
    from model_worker.checks.device_counters import counted
    from model_worker.checks.step_memory import bytes_of_step

    step = session.make_step()
    batch = session.likely_batch(shape)
    begun_s = time.perf_counter()
    _steps(step, batch, 1)
    first_s = time.perf_counter() - begun_s
    step_ms, host_ms, busy = _pace(session, step, batch, flags.seconds)
    found = counted(lambda: _steps(step, batch, _COUNTED_STEPS), _COUNTED_STEPS)
    allocated = session.most_allocated()
    return Timed(
        size=flags.size,
        precision=session.precision,
        rows=shape.rows,
        lengths=shape.lengths,
        first_s=round(first_s, 2),
        step_ms=round(step_ms, 2),
        host_ms=round(host_ms, 2),
        busy=busy,
        counted=found,
        predicted_mb=round(bytes_of_step(step, shape) / 2**20),
        allocated_mb=None if allocated is None else round(allocated / 2**20),
    )


def _steps(step: TrainStep, batch: dict[str, tf.Tensor], count: int) -> float:
    """Train so often and wait for the device; returns the host's seconds before the wait."""
    begun_s = time.perf_counter()
    for _ in range(count):
        step(batch, 0, _RATE)
    handed_over_s = time.perf_counter() - begun_s
    step.num_nonfinite.numpy()
    return handed_over_s


def _pace(
    session: MeasuringSession, step: TrainStep, batch: dict[str, tf.Tensor], seconds: float
) -> tuple[float, float, float | None]:
    """Median milliseconds of a step, the host's part of it, and the device's busy share."""
    _steps(step, batch, 1)
    all_ms: list[float] = []
    host_ms: list[float] = []
    shares: list[float] = []
    begun_s = time.perf_counter()
    while not all_ms or time.perf_counter() - begun_s < seconds:
        turn_s = time.perf_counter()
        host_ms.append(_steps(step, batch, _STEPS_PER_TURN) / _STEPS_PER_TURN * 1000)
        all_ms.append((time.perf_counter() - turn_s) / _STEPS_PER_TURN * 1000)
        if session.has_new_share() and session.busy_share is not None:
            shares.append(session.busy_share)
    busy = round(statistics.median(shares), 3) if shares else None
    return statistics.median(all_ms), statistics.median(host_ms), busy


def _copies(session: MeasuringSession) -> tuple[Copied, Copied]:
    """To the device and back, as a run's batches and validation's numbers go."""
    import numpy as np
    import tensorflow as tf

    array = np.ones((_COPIED_MB << 20) // 4, np.float32)
    there, back = [], []
    for _ in range(_COPIES):
        begun_s = time.perf_counter()
        with tf.device(session.device):
            tensor = tf.identity(tf.convert_to_tensor(array))
            tf.reduce_max(tensor[:1]).numpy()  # it has arrived
        arrived_s = time.perf_counter()
        tensor.numpy()
        there.append(arrived_s - begun_s)
        back.append(time.perf_counter() - arrived_s)
    gigabytes = array.nbytes / 1e9
    return (
        Copied(True, _COPIED_MB, round(gigabytes / statistics.median(there), 2)),
        Copied(False, _COPIED_MB, round(gigabytes / statistics.median(back), 2)),
    )


if __name__ == "__main__":
    sys.exit(check_main(_work))
