"""A session whose numbers break down: it goes back, leaves out what broke it, and does not try for ever.

Both sides are those of a run, in this process and on a real socket; the model is as small as it goes.
"""

import contextlib
import dataclasses
import json
import os
import threading

import numpy as np
import pytest
import soundfile
import tensorflow as tf
import zmq

from data_worker.assembly import Assembly
from data_worker.batches.movement import Movement
from data_worker.preparation.prepare import prepare
from data_worker.stream import serving
from model_worker.model_process import Session
from model_worker.speech.network import acoustic_model
from model_worker.stream.device_prefetch import DevicePrefetch
from model_worker.surroundings import Surroundings
from model_worker.training.roll_backs import RollBacks
from model_worker.training.step import TrainStep
from shared.config.settings import Config, DataConfig, RunConfig, TaskConfig, TrainingConfig
from shared.devices.cores import BusyMeter
from shared.errors import TandemError
from shared.run.directory import RunDirectory
from shared.stream.sockets import ClientSocket
from shared.worker.decoding_record import ReadingRecord
from shared.worker.reports import LineKind, Reporter

DEADLINE_S = 60.0
NUM_CLIPS = 24
TASK = TaskConfig(text_frontend="characters", model_size="tiny")
TRAINING = TrainingConfig(
    max_steps=10, validate_every=0, checkpoint_every=3, log_every=1, max_nonfinite_steps=1
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder of noise, and a run directory with its index."""
    folder = tmp_path_factory.mktemp("roll-back")
    folder.chmod(0o700)
    (folder / "data" / "wavs").mkdir(parents=True)
    for number in range(NUM_CLIPS):
        samples = np.random.default_rng(number).normal(0, 0.1, 8_000 + 100 * number)
        soundfile.write(folder / "data" / "wavs" / f"u{number}.wav", samples, 22_050)
    lines = "".join(f"u{number}|Say {number}.\n" for number in range(NUM_CLIPS))
    (folder / "data" / "metadata.csv").write_text(lines, encoding="utf-8")
    data = DataConfig(
        train_data=str(folder / "data"), val_fraction=0.0,
        batch_size=2, max_buckets=1, pipeline_buffer_size=4,
    )  # fmt: skip
    config = Config(data=data, task=TASK, training=TrainingConfig(seed=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TANDEM_CACHE", str(folder / "cache"))
        index = prepare(config, folder / "index.safetensors")
    return folder, data, index


class Story(Reporter):
    """What the session says, and what it is at."""

    def __init__(self):
        super().__init__(None)
        self.said, self.phases = [], []

    def say(self, text, kind=LineKind.STORY):
        self.said.append(text)

    def phase(self, name, deadline_s):
        self.phases.append(name)


class Stop:
    """Asked for while a step is made."""

    def __init__(self):
        self.is_asked = False

    def now_at_work(self):
        pass

    def __call__(self):
        return self.is_asked


class Training:
    """A session, its run directory, and a data process in a thread of its own."""

    def __init__(self, prepared, folder, monkeypatch, training, broken):
        """`broken`: the numbers of batches whose numbers are none."""
        corpus, data, index = prepared
        self.run = RunDirectory(folder)
        self.run.create()
        os.link(corpus / "index.safetensors", self.run.index)
        config = Config(
            data=data, task=TASK, training=training,
            run=RunConfig(run_id="run", samples=0, audit=True),
        )  # fmt: skip
        self.story, self.stop, self.stop_at_step = Story(), Stop(), None
        self.spoil_averages_at: list[int] = []  # steps, each once
        self._broken = broken
        copy, make_step = DevicePrefetch._copy, TrainStep.__call__

        def stopped_step(train_step, batch, step, *rest):
            self.stop.is_asked |= step == self.stop_at_step
            make_step(train_step, batch, step, *rest)
            if step in self.spoil_averages_at[:1]:
                del self.spoil_averages_at[0]
                train_step.averages[0].assign(train_step.averages[0] * np.nan)

        monkeypatch.setattr(DevicePrefetch, "_copy", lambda *rest: self.spoilt(copy(*rest)))
        monkeypatch.setattr(TrainStep, "__call__", stopped_step)
        folder.chmod(0o700)
        endpoint = f"ipc://{folder}/s"
        self.session = Session(
            Surroundings(self.run, config, endpoint, None, "cpu", self.story, self.stop),
            started_s=0.0,
        )
        self._serve(config, index, endpoint)

    def spoilt(self, batch):
        if batch.received.index not in self._broken:
            return batch
        spoilt = {**batch.tensors, "mel": batch.tensors["mel"] * np.nan}
        return dataclasses.replace(batch, tensors=spoilt)

    def _serve(self, config, index, endpoint):
        parts = Assembly.of_run(self.run.path, config, index, "cpu")
        outbox, movement = serving.Outbox(), Movement(self.story)
        self._over, self._context = threading.Event(), zmq.Context()
        socket = ClientSocket(endpoint, "run", self._context)
        server = serving.DataServer(
            [socket],
            parts.hello("data_worker-0", tf.__version__),
            parts.batch_maker(outbox.put, movement, ReadingRecord()),
            outbox, self.story, movement, BusyMeter(), self._over.is_set, len(index),
        )  # fmt: skip
        self._thread = threading.Thread(target=server.serve, daemon=True)
        self._thread.start()

    def skipped(self):
        lines = (self.run.path / "skipped.jsonl").read_text().splitlines()
        return [tuple(json.loads(line).values()) for line in lines]

    def audited(self):
        lines = self.run.audit.read_text().splitlines()
        return [json.loads(line)["batch_index"] for line in lines]

    def open_files(self):
        """Files of the run that this process has open."""
        found = []
        for entry in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"/proc/self/fd/{entry}"))
        return sorted(path for path in found if path.startswith(str(self.run.path)))

    def close(self):
        self._over.set()
        self._thread.join(DEADLINE_S)
        self._context.destroy(linger=0)


@pytest.fixture
def train(prepared, tmp_path, monkeypatch):
    smallest = acoustic_model.ModelShape(16, 1, 16, 1, 8, 8, 1, 4, dropout=0.0, prosody_dropout=0.0)
    monkeypatch.setitem(acoustic_model.SHAPES, "tiny", smallest)
    with contextlib.ExitStack() as stack:

        def begin(broken, **training):
            settings = dataclasses.replace(TRAINING, **training)
            made = Training(prepared, tmp_path / "run", monkeypatch, settings, broken)
            stack.callback(made.close)
            return made

        yield begin


def wait_for_end_of(threads):
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), thread.name


def test_it_goes_back_leaves_the_batches_out_and_finishes(train):
    training = train(broken={4, 5})
    before = set(threading.enumerate())
    assert training.session.train() is None
    assert training.skipped() == [(4, 5)]
    assert "to the last checkpoint and skipping batches 4 to 5" in training.story.said[-1]
    names = ("receiver", "device-prefetch", "tensorboard", "samples")
    wait_for_end_of(t for t in set(threading.enumerate()) - before if t.name.startswith(names))
    assert training.open_files() == [str(training.run.index), str(training.run.quarantine)]
    assert training.session.train() == 0
    assert any(line.startswith("↩️  Continuing from step 3") for line in training.story.said)
    assert training.audited() == [0, 1, 2, 3, 6, 7, 8, 9]
    assert training.skipped() == [(4, 5)]


def test_a_stop_at_broken_numbers_does_not_begin_again(train):
    training = train(broken=set(range(4, 10)), log_every=100, checkpoint_every=4)
    training.stop_at_step = 6
    assert training.session.train() == 130
    assert training.skipped() == [(4, 6)]


def test_what_leaving_out_batches_does_not_mend_ends_the_run(train):
    training = train(broken=set(range(3, 100)), max_steps=40)
    assert training.session.train() is None
    assert training.session.train() is None
    with pytest.raises(TandemError, match="3 times by step 8, each time at other batches"):
        training.session.train()
    assert training.skipped() == [(3, 4), (5, 6), (6, 7)]


def test_averages_that_are_no_numbers_are_gone_back_from_too(train):
    training = train(broken=set())
    training.spoil_averages_at = [4]
    assert training.session.train() is None
    assert "Step 6 was not saved: ema/" in training.story.said[-1]
    assert training.session.train() == 0
    assert any(line.startswith("↩️  Continuing from step 3") for line in training.story.said)
    assert training.audited() == list(range(10))


def test_averages_that_are_never_numbers_end_the_run(train):
    training = train(broken=set())
    training.spoil_averages_at = [4, 4, 4]
    assert training.session.train() is None
    assert training.session.train() is None
    with pytest.raises(TandemError, match="3 times by step 6"):
        training.session.train()


def test_weights_that_have_changed_begin_a_new_count():
    roll_backs = RollBacks()
    for num_applied in (0, 0, 100, 100, 200, 200):
        roll_backs.note(0, num_applied)
    with pytest.raises(TandemError):
        roll_backs.note(0, 200)
