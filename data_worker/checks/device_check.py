"""`python -m data_worker.checks.device_check`: the data process's part in `launcher.py validate`.

Tells the launcher what it sees, makes arrays on its device, and sends them as a batch is sent.
"""

from __future__ import annotations

import sys
import time
from types import ModuleType

import numpy as np

from data_worker.assembly import Assembly
from data_worker.batches.batch_filler import BatchFiller
from data_worker.batches.cache import NoCache
from data_worker.batches.reading import make_loader
from shared.devices.device_facts import device_facts
from shared.devices.gpus import first_time_s
from shared.errors import ProtocolError, TandemError
from shared.plan.index import Index
from shared.plan.plan import FILLER
from shared.plan.plan_of_run import example_of_row
from shared.stream import messages
from shared.stream.array_block import ArrayBlock, digest_of
from shared.stream.sockets import ClientSocket
from shared.task import BatchShape, DataSide
from shared.task.registry import Task
from shared.worker.beside_cpu import deviations
from shared.worker.reports import Compared, Device, Reporter, Sent
from shared.worker.start import (
    begin_worker,
    fix_gpu,
    open_run,
    run_worker,
    start_tensorflow,
    worker_parser,
)

_ANSWER_DEADLINE_S = 240.0  # the model process builds its model first


def main() -> int:
    begin_worker()
    return run_worker(_work, if_out_of_memory="")


def _work(reporter: Reporter) -> int:
    flags = worker_parser("python -m data_worker.checks.device_check", "--connect").parse_all(
        sys.argv[1:]
    )
    run, config = open_run(flags)
    device_kind = fix_gpu("data", flags, config)
    tf = start_tensorflow("data", device_kind, config)
    reporter.tell(Device(device_facts(tf, device_kind)))
    device = "/GPU:0" if device_kind == "gpu" else "/CPU:0"
    index = Index.load(run.index)
    parts = Assembly.of_run(run.path, config, index, device_kind)
    arrays, made_on = _made_on_device(tf, device, parts.plan.batch(0).shape)
    reporter.tell(Sent(digest_of(arrays), made_on))
    reporter.tell(Compared(_features_beside_cpu(tf, parts)))
    socket = ClientSocket(flags.endpoint, config.run.wire_id, make_memory=parts.memory)
    _send(socket, parts.hello("check", tf.__version__), arrays)
    return 0


def _made_on_device(
    tf: ModuleType, device: str, shape: BatchShape
) -> tuple[dict[str, np.ndarray], str]:
    """Noise in the arrays of one batch, made on the device; and where they really were."""
    arrays, made_on = {}, ""
    for number, (name, (dtype, dimensions)) in enumerate(shape.arrays().items()):
        with tf.device(device):
            noise = tf.random.stateless_normal(dimensions, seed=(7, number))
            tensor = noise if dtype == "float32" else tf.cast(1000 * noise, dtype)
        made_on = tensor.backing_device if tensor.dtype.is_floating else made_on
        arrays[name] = np.ascontiguousarray(tensor.numpy())
    return arrays, made_on


def _features_beside_cpu(tf: ModuleType, parts: Assembly) -> dict[str, float]:
    """How far each array of a whole batch is from the same batch made on the CPU."""
    example_of = example_of_row(parts.config, parts.index)
    load, plan = make_loader(parts.task, example_of, {}), parts.plan.batch(0)
    rows = {*plan.rows.tolist(), *plan.companions.tolist()} - {FILLER}
    raws = {row: load(row, lambda: None) for row in rows}

    def made_by(task: DataSide) -> dict[str, np.ndarray]:
        return dict(BatchFiller(task, example_of, NoCache()).fill(plan, {}, dict(raws)))

    made = made_by(parts.task)
    with tf.device("/CPU:0"):
        of_cpu = Task.of(parts.config.run.task).data_side()(parts.config)
        of_cpu.open(parts.index)
        return deviations(made, made_by(of_cpu))


def _send(socket: ClientSocket, hello: messages.Hello, arrays: dict[str, np.ndarray]) -> None:
    """Introduce itself, send the arrays as a batch, and stay until the other side has them."""
    try:
        socket.send(hello)
        until_s = time.monotonic() + first_time_s(_ANSWER_DEADLINE_S)
        while time.monotonic() < until_s:
            socket.socket.poll(250)
            for received in socket.receive_waiting():
                if isinstance(received, ProtocolError):
                    continue
                message = received.message
                if isinstance(message, messages.Welcome):
                    socket.session = received.session
                    block = ArrayBlock.copied(arrays, socket.take_memory)
                    socket.send(messages.BatchReady(0, 0, {}, 0.0, block))
                elif isinstance(message, messages.StopProducing):
                    return
        raise TandemError(f"the model process took no batch in {_ANSWER_DEADLINE_S:g} s.")
    finally:
        socket.close()


if __name__ == "__main__":
    sys.exit(main())
