"""Samples of a training run: written, and training is none the worse for them."""

import threading
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import soundfile
import tensorflow as tf

from model_worker.speech import sample_picture
from model_worker.speech.network.acoustic_model import build_model
from model_worker.speech.samples import SpokenSamples
from model_worker.speech.task import SpeechModel
from model_worker.training.step import StepSettings, TrainStep
from model_worker.watching.showing import Showing
from model_worker.watching.summaries import Summaries, tidy_names
from shared.config.settings import Config, DataConfig, ModelConfig, RunConfig, TrainingConfig
from shared.speech.batch import FORM
from shared.speech.corpus_statistics import Statistics
from shared.speech.mel import HOP

DEADLINE_S = 60.0
TABLE = ["_", "<s>", "</s>", " ", *"abcdefgh$"]


@pytest.fixture
def parts(tmp_path):
    keras.utils.set_random_seed(3)
    model = build_model("tiny", len(TABLE), Statistics(-5.0, 2.0, 5.0, 0.3, 1.0, 1.0))
    train_step = TrainStep(model, SpeechModel(Config()), FORM.signature(), StepSettings())
    for average in train_step.averages:
        average.assign(average + 0.01)
    index = SimpleNamespace(
        ids=["one", "two", "three"], symbol_table=TABLE,
        mel_basis=np.random.default_rng(0).random((80, 513)).astype(np.float32) / 50,
    )  # fmt: skip
    config = Config(DataConfig(train_data="x"), ModelConfig(), TrainingConfig(), RunConfig())
    said = []
    summaries = Summaries(tmp_path / "tensorboard", config, say=said.append)
    viewer = SpokenSamples(model, index, num_samples=2)
    showing = Showing(viewer, train_step, tmp_path / "samples", summaries, say=said.append)
    return SimpleNamespace(
        train_step=train_step, showing=showing, viewer=viewer, summaries=summaries, said=said
    )


def batch() -> dict[str, tf.Tensor]:
    noise = np.random.default_rng(1)
    return {
        "symbols": tf.constant(noise.integers(4, len(TABLE), (3, 12)), tf.int32),
        "symbol_lengths": tf.constant([1, 12, 7], tf.int32),
        "mel": tf.constant(noise.normal(-5, 2, (3, 60, 80)), tf.float32),
        "mel_lengths": tf.constant([1, 60, 33], tf.int32),
        "reference_mel": tf.constant(noise.normal(-5, 2, (3, 192, 80)), tf.float32),
        "weight": tf.constant([0.0, 1.0, 1.0]),
        "rows": tf.constant([-1, 2, 0], tf.int32),
    }


def test_samples_are_spoken_and_drawn_and_the_weights_stay_as_they_were(parts, tmp_path):
    weights = [weight.numpy() for weight in parts.train_step.weights]
    state = np.random.get_state(legacy=False)["state"]["key"].copy()
    parts.showing.keep(batch())
    parts.showing.show(500)
    parts.showing.close()
    for weight, before in zip(parts.train_step.weights, weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), before)
    np.testing.assert_array_equal(np.random.get_state(legacy=False)["state"]["key"], state)
    folder = tmp_path / "samples" / "step-000500"
    assert sorted(path.name for path in folder.iterdir()) == ["0.png", "0.wav", "1.png", "1.wav"]
    assert soundfile.info(folder / "0.wav").samplerate == 22_050
    assert (folder / "0.png").read_bytes().startswith(b"\x89PNG")
    assert any((tmp_path / "tensorboard").iterdir())
    recorded = [soundfile.info(tmp_path / "samples/recorded" / f"{i}.wav").frames for i in (0, 1)]
    assert recorded == [60 * HOP, 33 * HOP]


def test_what_was_recorded_is_written_once(parts, tmp_path):
    parts.showing.keep(batch())
    parts.showing.show(1)
    parts.showing.close()
    folder, said = tmp_path / "samples", (parts.viewer._rows, tmp_path / "samples", len)
    assert parts.viewer._recorded_waves(*said) == []
    (folder / "recorded" / "1.wav").unlink()  # as after a kill between the two
    assert len(parts.viewer._recorded_waves(*said)) == 2


def test_the_sentences_stay_those_of_the_first_batch(parts):
    first = batch()
    parts.showing.keep(first)
    parts.showing.keep({**batch(), "symbols": tf.zeros_like(first["symbols"])})
    np.testing.assert_array_equal(parts.viewer._rows["symbols"], first["symbols"].numpy()[1:])


def test_a_full_disk_or_a_broken_model_does_not_end_the_run(parts, tmp_path, caplog):
    (tmp_path / "samples").write_text("a file where the folder should be")
    (tmp_path / "tensorboard").write_text("likewise")
    parts.showing.keep(batch())
    parts.showing.show(1)
    parts.summaries.numbers({"step": 1, "loss": 1.0})
    parts.viewer._rows["symbols"] = parts.viewer._rows["symbols"][:, :0]
    parts.viewer._rows["symbol_lengths"] = "nonsense"
    parts.showing.show(2)
    parts.showing.close()
    assert caplog.text.count("; the run goes on") == 3
    assert sorted(words.partition(";")[0] for words in parts.said) == [
        "⚠️  TensorBoard can't be written to",
        "⚠️  The samples of step 1 could not be written",
    ]
    assert all(words.endswith("(see model_worker.log)") for words in parts.said)


def test_a_stop_does_not_wait_for_pictures_or_for_tensorboard(parts, monkeypatch):
    before, drawing, go_on = set(threading.enumerate()), threading.Event(), threading.Event()

    def draw(*arguments):
        drawing.set()
        go_on.wait(DEADLINE_S)
        raise OSError("the storage is gone")

    monkeypatch.setattr(sample_picture, "draw", draw)
    monkeypatch.setattr(Summaries, "_write_numbers", lambda self, record: go_on.wait(DEADLINE_S))
    parts.showing.keep(batch())
    parts.showing.show(1)
    parts.summaries.numbers({"step": 1, "loss": 1.0})
    assert drawing.wait(DEADLINE_S)
    parts.showing.close(patience_s=0.01)
    assert not go_on.is_set()
    go_on.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_numbers_are_filed_under_tidy_names():
    record = {
        "step": 3, "time": 1.0, "loss": 2.0, "loss_mel": None, "learning_rate": 1e-3,
        "step_ms": 5, "model_gpu_busy": [0.5, 1.0], "data_gpu_busy": 0.2, "val_loss": 1.5,
        "timings_ms": {"decoding": 4.0, "readers": 2.0}, "waited_for_ms": {"features": 1.0},
        "gradient_norm": float("nan"),
    }  # fmt: skip
    assert dict(tidy_names(record)) == {
        "training/loss": 2.0, "training/learning_rate": 1e-3, "pipeline/step_ms": 5.0,
        "devices/model_gpu_busy": 0.75, "devices/data_gpu_busy": 0.2, "validation/loss": 1.5,
        "timings_ms/decoding": 4.0, "pipeline/readers": 2.0, "waited_for_ms/features": 1.0,
    }  # fmt: skip


def test_what_is_written_can_be_read_by_tensorboard(parts, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for step in (1, 2):
        parts.summaries.numbers({"step": step, "loss": float(step), "val_loss": 0.5})
    parts.showing.keep(batch())
    parts.showing.show(2)
    parts.showing.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"), {"tensors": 0}).Reload()
    tags = set(events.Tags()["tensors"])
    assert tags >= {"training/loss", "validation/loss", "configuration"}
    assert tags >= {"speech/0", "speech/1", "alignment_and_mel/0", "alignment_and_mel/1"}
    assert [event.step for event in events.Tensors("training/loss")] == [1, 2]


def test_steps_that_a_resumed_run_trains_again_are_shown_once(tmp_path):
    # The one that TensorBoard itself shows events with.
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

    folder = tmp_path / "tensorboard"
    first = Summaries(folder, Config())
    for step in range(1, 6):
        first.numbers({"step": step, "loss": 1.0})
    first.flush()
    resumed = Summaries(folder, Config(), done_steps=3)
    for step in range(4, 8):
        resumed.numbers({"step": step, "loss": 2.0})
    resumed.flush()
    events = EventAccumulator(str(folder), {"tensors": 0}).Reload()
    losses = [(e.step, float(tf.make_ndarray(e.tensor_proto)))
              for e in events.Tensors("training/loss")]  # fmt: skip
    assert losses == [(1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, 2.0), (6, 2.0), (7, 2.0)]
    assert [event.step for event in events.Tensors("configuration")] == [0, 3]
    tags = events.SummaryMetadata("_hparams_/session_start_info")
    assert tags.plugin_data.plugin_name == "hparams"
