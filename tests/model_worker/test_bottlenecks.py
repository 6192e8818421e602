"""An injected bottleneck is named: both sides of a run in this process, on a real socket.

Files, readers, decoder, feature graph, serving loop, wire, receiver and copying thread are those of
a run. Only the training step is a pause, and each trial makes one part of the chain slow.
"""

import contextlib
import dataclasses
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
import zmq

from data_worker.assembly import Assembly
from data_worker.batches import reading
from data_worker.batches.movement import Movement
from data_worker.preparation.prepare import prepare
from data_worker.speech.features import FeatureExtractor
from data_worker.speech.task import SpeechData
from data_worker.stream import serving
from data_worker.stream import spare as standing_by
from model_worker.stream.admission import Expected
from model_worker.stream.device_prefetch import DevicePrefetch
from model_worker.stream.receiver import Receiver
from model_worker.stream.ticket_ledger import TicketLedger
from shared.config.settings import Config, DataConfig, TaskConfig, TrainingConfig
from shared.devices.cores import BusyMeter
from shared.diagnosis.verdict import Measured, judge
from shared.diagnosis.wait_attribution import attribute
from shared.plan.exclusions import Exclusions
from shared.plan.plan import Plan
from shared.plan.plan_of_run import settings_fingerprint
from shared.speech.batch import FORM
from shared.stream.sockets import ClientSocket, ServerSocket
from shared.task.model_side import ModelSide
from shared.worker.decoding_record import ReadingRecord
from shared.worker.reports import Reporter

DEADLINE_S = 60.0
NUM_CLIPS, BATCH_SIZE = 24, 2
USUAL_STEP_S = 0.004
FIRST_BATCHES, MEASURED_BATCHES = 8, 8
PAUSE_S = 0.06  # far more than anything real takes here, also on a busy machine


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A small folder of noise, and its index."""
    folder = tmp_path_factory.mktemp("bottlenecks")
    (folder / "data" / "wavs").mkdir(parents=True)
    for number in range(NUM_CLIPS):
        samples = np.random.default_rng(number).normal(0, 0.1, 8_000 + 100 * number)
        soundfile.write(folder / "data" / "wavs" / f"u{number}.wav", samples, 22_050)
    lines = "".join(f"u{number}|Say {number}.\n" for number in range(NUM_CLIPS))
    (folder / "data" / "metadata.csv").write_text(lines, encoding="utf-8")
    config = Config(
        data=DataConfig(
            train_data=str(folder / "data"), val_fraction=0.0, batch_size=BATCH_SIZE, cache="off"
        ),
        task=TaskConfig(text_frontend="characters"),
        training=TrainingConfig(seed=1),
    )
    (folder / "run").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TANDEM_CACHE", str(folder / "cache"))
        index = prepare(config, folder / "run" / "index.safetensors")
    return config, index


def plan_of(index):
    return Plan.from_index(
        index, FORM, batch_size=BATCH_SIZE, seed=3, max_buckets=1, static_shapes=True
    )


@pytest.fixture(scope="module")
def task(corpus):
    """One for all trials, its graphs made before them."""
    config, index = corpus
    task = SpeechData(config)
    task.open(index)
    standing_by.warm_up(task, plan_of(index), Reporter(None))
    return task


class SlowLink:
    """Carries messages between two sockets, each batch after a pause for its bytes."""

    def __init__(self, context, listen, connect, pause_s):
        self._near, self._far = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
        self._near.bind(listen)
        self._far.connect(connect)
        self._pause_s = pause_s
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _carry(self):
        poller = zmq.Poller()
        for socket in (self._near, self._far):
            poller.register(socket, zmq.POLLIN)
        while not self.over.is_set():
            for socket, _ in poller.poll(20):
                frames = socket.recv_multipart()
                if len(frames) > 1:
                    self.over.wait(self._pause_s)
                other = self._far if socket is self._near else self._near
                with contextlib.suppress(zmq.ZMQError):  # nobody is there any more
                    other.send_multipart(frames, zmq.DONTWAIT)
        self._near.close(0)
        self._far.close(0)

    def close(self):
        self.over.set()
        self._thread.join(DEADLINE_S)


def slowed(function, pause_s):
    def slow(*arguments, **named):
        time.sleep(pause_s)
        return function(*arguments, **named)

    return slow


@contextlib.contextmanager
def pipeline(folder, config, index, task, link_pause_s):
    """Both sides at work; yields the receiver and the prefetch that a training loop would use."""
    plan = plan_of(index)
    context, reporter = zmq.Context(), Reporter(None)
    parts = Assembly(Path(folder), config, index, plan, task, "cpu")
    expected = Expected(
        "run", index.fingerprint, settings_fingerprint(config, plan), "cpu", len(index)
    )
    stop = threading.Event()
    with contextlib.ExitStack() as stack:
        stack.callback(context.destroy, linger=0)
        endpoint = f"ipc://{folder}/s"
        server = ServerSocket(endpoint, "run", context)
        ledger = TicketLedger(config.data.pipeline_buffer_size, 1 << 30, plan.nbytes)
        receiver = Receiver(server, plan, ledger, expected, Exclusions(), lambda *_: None)
        receiver.start()
        stack.callback(receiver.stop, "the trial is over")
        if link_pause_s:
            link = SlowLink(context, f"ipc://{folder}/l", endpoint, link_pause_s)
            stack.callback(link.close)
            endpoint = f"ipc://{folder}/l"
        outbox, movement, busy = serving.Outbox(), Movement(reporter), BusyMeter()
        # A link that is slow for bytes is one between two hosts: no memory is shared over it.
        make_memory = None if link_pause_s else parts.memory
        socket = ClientSocket(endpoint, "run", context, make_memory=make_memory)
        data_server = serving.DataServer(
            [socket],
            parts.hello("data_worker-0", "0"),
            parts.batch_maker(
                outbox.put, movement, ReadingRecord(), cores_busy=lambda: busy.share or 0.0
            ),
            outbox, reporter, movement, busy, stop.is_set, len(index),
        )  # fmt: skip
        thread = threading.Thread(target=data_server.serve, daemon=True)
        thread.start()
        stack.callback(thread.join, DEADLINE_S)
        stack.callback(stop.set)
        prefetch = DevicePrefetch(receiver.queue, "/CPU:0", ModelSide(Config()).amount)
        stack.callback(prefetch.close)
        yield receiver, prefetch


def measure(receiver, prefetch, step_s):
    """Train for a while, and what the log would say of the last batches."""
    measured = Measured()
    for number in range(FIRST_BATCHES + MEASURED_BATCHES):
        started_s = time.perf_counter()
        batch = prefetch.get(DEADLINE_S)
        waited_ms = (time.perf_counter() - started_s) * 1000
        receiver.taken()
        causes = attribute(batch.life(waited_ms))
        time.sleep(step_s)
        if number >= FIRST_BATCHES:
            measured.add({
                "step": number + 1, "epoch": 0, "step_ms": step_s * 1000,
                "data_wait_ms": waited_ms, "waited_for_ms": causes,
                "queue_depth": receiver.queue_depth, "timings_ms": batch.received.timings_ms,
            })  # fmt: skip
    return measured


@pytest.mark.parametrize("trial", range(4))
@pytest.mark.parametrize("slow", ["reading", "decoding", "features", "transport", ""])
def test_the_slow_part_is_named(slow, trial, corpus, task, tmp_path, monkeypatch):
    """Twenty trials of five bottlenecks, with other readers, buffers and delays in each."""
    config, index = corpus
    readers, buffer_size, strength = [(1, 50, 1.0), (2, 8, 1.2), (3, 12, 1.4), (4, 3, 1.6)][trial]
    data = dataclasses.replace(config.data, num_workers=readers, pipeline_buffer_size=buffer_size)
    config = dataclasses.replace(config, data=data)
    pause_s = PAUSE_S * strength
    per_file_s = pause_s * readers / (2 * BATCH_SIZE)  # a reference clip for each
    if slow == "reading":
        monkeypatch.setattr(reading, "fetch", slowed(reading.fetch, per_file_s))
    elif slow == "decoding":
        read = soundfile.SoundFile.read
        monkeypatch.setattr(soundfile.SoundFile, "read", slowed(read, per_file_s))
    elif slow == "features":
        monkeypatch.setattr(
            FeatureExtractor, "__call__", slowed(FeatureExtractor.__call__, pause_s)
        )
    tmp_path.chmod(0o700)
    link_pause_s = pause_s if slow == "transport" else 0.0
    step_s = 1.5 * pause_s if slow == "" else USUAL_STEP_S
    with pipeline(tmp_path, config, index, task, link_pause_s) as (receiver, prefetch):
        measured = measure(receiver, prefetch, step_s)
    verdict = judge(measured, config)
    assert verdict.waiting_for == slow, f"{verdict}\n{measured}"
    if slow:
        assert measured.explained >= 0.95, str(measured)
