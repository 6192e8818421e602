"""`python -m model_worker.checks.device_check`: the model process's part in `launcher.py validate`.

Tells the launcher, one report each: what it sees, how a forward pass went, and the digest of the
arrays that reached its device from the data process.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import zmq

from shared.config.settings import Config
from shared.devices.device_facts import device_facts
from shared.errors import ProtocolError, TandemError
from shared.plan.index import Index
from shared.plan.plan_of_run import plan_of
from shared.stream import messages
from shared.stream.array_block import digest_of
from shared.stream.endpoints import remove_socket
from shared.stream.sockets import ServerSocket
from shared.task import BatchShape
from shared.worker.reports import Arrived, Device, Forward, Reporter
from shared.worker.start import (
    begin_worker,
    fix_gpu,
    open_run,
    run_worker,
    start_tensorflow,
    worker_parser,
)

_ARRIVAL_DEADLINE_S = 120.0


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
    shape = plan_of(config, index).batch(0).shape
    reporter.tell(_forward(tf, device, config, index, shape))
    reporter.tell(_arrival(tf, device, flags.endpoint, config.run.run_id))
    return 0


def _forward(tf, device: str, config: Config, index: Index, shape: BatchShape) -> Forward:
    """Build the run's model on the device and run it once on numbers that look like a batch."""
    from model_worker.speech.network.acoustic_model import Statistics, build_model

    started_s = time.perf_counter()
    names = ("mel_mean", "mel_std", "pitch_mean", "pitch_std", "energy_mean", "energy_std")
    statistics = Statistics(*(getattr(index, name) for name in names))
    with tf.device(device):
        model = build_model(config.task.model_size, len(index.symbol_table), statistics)
        built_s = time.perf_counter()
        batch = {name: tf.constant(array) for name, array in _likely(index, shape).items()}
        outputs = tf.function(lambda batch: model.training_outputs(batch, training=False))(batch)
    mel = outputs["mel"]
    return Forward(
        finite=bool(np.isfinite(mel.numpy()).all()),
        device=mel.backing_device,
        num_parameters=int(sum(np.prod(weight.shape) for weight in model.trainable_weights)),
        build_ms=round((built_s - started_s) * 1000),
        forward_ms=round((time.perf_counter() - built_s) * 1000),
    )


def _likely(index: Index, shape: BatchShape) -> dict[str, np.ndarray]:
    """A batch of this shape: full rows of noise at the corpus' level, any symbols."""
    random = np.random.default_rng(1)
    full = {"symbol_lengths": shape["num_symbols"], "mel_lengths": shape["num_frames"]}
    arrays = {}
    for name, (dtype, dimensions) in shape.arrays().items():
        if name == "symbols":
            array = random.integers(1, len(index.symbol_table), dimensions)
        elif name in full:
            array = np.full(dimensions, full[name])
        elif "mel" in name:
            array = random.normal(index.mel_mean, index.mel_std, dimensions)
        else:
            array = np.ones(dimensions)
        arrays[name] = array.astype(dtype)
    return arrays


def _arrival(tf, device: str, endpoint: str, run_id: str) -> Arrived:
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
            device=tensors["mel"].backing_device,
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
    until_s = time.monotonic() + _ARRIVAL_DEADLINE_S
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
