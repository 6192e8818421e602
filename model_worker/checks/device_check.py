"""`python -m model_worker.checks.device_check`: the model process's part in `launcher.py validate`.

Tells the launcher, one report each: what it sees, how a forward pass went, and the digest of the
arrays that reached its device from the data process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import zmq

from shared.config.settings import Config
from shared.devices.device_facts import device_facts
from shared.devices.gpus import first_time_s
from shared.errors import ProtocolError, TandemError
from shared.plan.index import Index
from shared.plan.plan_of_run import plan_of
from shared.stream import messages
from shared.stream.array_block import digest_of
from shared.stream.endpoints import remove_socket
from shared.stream.sockets import ServerSocket
from shared.task.batch import WEIGHT
from shared.task.model_side import Facts
from shared.task.registry import Task
from shared.worker.beside_cpu import deviations
from shared.worker.reports import Arrived, Compared, Device, Forward, Reporter
from shared.worker.start import (
    begin_worker,
    fix_gpu,
    open_run,
    run_worker,
    start_tensorflow,
    worker_parser,
)

if TYPE_CHECKING:
    import keras

_ARRIVAL_DEADLINE_S = 120.0
_CPU = "/CPU:0"


def main() -> int:
    begin_worker()
    return run_worker(_work, if_out_of_memory="")


def _work(reporter: Reporter) -> int:
    flags = worker_parser("python -m model_worker.checks.device_check", "--listen").parse_all(
        sys.argv[1:]
    )
    run, config = open_run(flags)
    device_kind = fix_gpu("model", flags, config)
    tf = start_tensorflow("model", device_kind, config)
    reporter.tell(Device(device_facts(tf, device_kind)))
    device = "/GPU:0" if device_kind == "gpu" else "/CPU:0"
    index = Index.load(run.index)
    arrays = plan_of(config, index).batch(0).shape.arrays()
    for report in _forward(tf, device, config, index, arrays):
        reporter.tell(report)
    reporter.tell(_arrival(tf, device, flags.endpoint, config.run.wire_id))
    return 0


def _forward(
    tf: ModuleType,
    device: str,
    config: Config,
    index: Index,
    arrays: Mapping[str, tuple[str, tuple[int, ...]]],
) -> tuple[Forward, Compared]:
    """Build the run's model on the device and run it once on numbers that look like a batch.

    The same is then done on the CPU: a device that computes nothing gives finite numbers too.
    """
    from model_worker.training.built_model import built_model
    from model_worker.training.task_losses import measured

    task = Task.of(config.run.task).model_side()(config)
    likely = task.likely(index, arrays)

    def build(where: str) -> keras.Model:
        with tf.device(where):
            return built_model(task, Facts(index, config))

    def losses(model: keras.Model, where: str) -> dict[str, Any]:  # of tensors
        with tf.device(where):
            batch = {name: tf.constant(array) for name, array in likely.items()}
            step = tf.constant(0)
            forward = tf.function(
                lambda batch: measured(task, model, batch, False, step), autograph=False
            )
            parts, _ = forward(batch)
            return parts

    # Its weights are drawn by the CPU: a device that computes nothing has none of its own.
    of_cpu = build(_CPU)
    started_s = time.perf_counter()
    model = build(device)
    model.set_weights(of_cpu.get_weights())
    built_s = time.perf_counter()
    parts = losses(model, device)
    values = {f"the loss {name}": value.numpy() for name, value in parts.items()}
    forward_s = time.perf_counter() - built_s
    expected = {f"the loss {name}": value.numpy() for name, value in losses(of_cpu, _CPU).items()}
    return Forward(
        finite=all(bool(np.isfinite(value)) for value in values.values()),
        device=next(iter(parts.values())).backing_device,
        num_parameters=int(sum(np.prod(weight.shape) for weight in model.trainable_weights)),
        build_ms=round((built_s - started_s) * 1000),
        forward_ms=round(forward_s * 1000),
    ), Compared(deviations(values, expected))


def _arrival(tf: ModuleType, device: str, endpoint: str, run_id: str) -> Arrived:
    """Receive one batch, copy it to the device, and look at what is there."""
    socket = ServerSocket(endpoint, run_id)
    try:
        peer, message = _receive(socket)
        started_s = time.perf_counter()
        with tf.device(device):
            tensors = {
                name: tf.identity(tf.convert_to_tensor(array))
                for name, array in message.arrays.items()
            }
        arrived = {name: tensor.numpy() for name, tensor in tensors.items()}
        facts = Arrived(
            sha256=digest_of(arrived),
            device=tensors[WEIGHT].backing_device,
            num_bytes=sum(array.nbytes for array in arrived.values()),
            copy_ms=round((time.perf_counter() - started_s) * 1000, 1),
        )
        socket.send(peer, messages.StopProducing("arrived"))
        return facts
    finally:
        socket.close()
        zmq.Context.instance().term()
        remove_socket(endpoint)


def _receive(socket: ServerSocket) -> tuple[bytes, messages.BatchReady]:
    until_s = time.monotonic() + first_time_s(_ARRIVAL_DEADLINE_S)
    while time.monotonic() < until_s:
        socket.socket.poll(250)
        for peer, received in socket.receive_waiting():
            if isinstance(received, ProtocolError):
                raise received
            if isinstance(received.message, messages.Hello):
                memory = socket.share_memory_with_sender(received.message)
                socket.send(peer, messages.Welcome(received.message.worker, memory))
            elif isinstance(received.message, messages.BatchReady):
                return peer, received.message
    raise TandemError(f"no batch came from the data process in {_ARRIVAL_DEADLINE_S:g} s.")


if __name__ == "__main__":
    sys.exit(main())
