"""What is put back from a checkpoint, from real files, and what is refused in plain words."""

import keras
import numpy as np
import pytest

from model_worker.checkpoints.store import CheckpointStore
from model_worker.speech.network import acoustic_model
from model_worker.speech.network.acoustic_model import build_model
from model_worker.speech.task import SpeechModel
from model_worker.training.state import Position, groups_of, restore, state_of
from model_worker.training.step import StepSettings, TrainStep
from shared.config.settings import Config
from shared.errors import CheckpointError
from shared.speech.batch import FORM
from shared.speech.corpus_statistics import Statistics

STATISTICS = Statistics(-5.0, 2.0, 5.0, 0.3, 0.0, 1.0)
IDENTITY = {"index": "f" * 64, "stream": "5" * 64, "model_size": "tiny", "grad_accum": 1}
POSITION = Position(step=7, next_batch=9, is_validated=True, fitted_steps=40, best_loss=0.5)


@pytest.fixture
def make_step(monkeypatch):
    def make(seed: int = 1, num_symbols: int = 6, channels: int = 16) -> TrainStep:
        shape = acoustic_model.ModelShape(channels, 1, 16, 1, 8, 8, 1, 4, 0.0)
        monkeypatch.setitem(acoustic_model.SHAPES, "tiny", shape)
        keras.utils.set_random_seed(seed)
        model = build_model("tiny", num_symbols, STATISTICS)
        return TrainStep(model, SpeechModel(Config()), FORM.signature(), StepSettings())

    return make


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "checkpoints")


def save(store, step, change=lambda groups, state: None):
    groups, state = groups_of(step), state_of(step, POSITION, [[3, 4]], IDENTITY)
    change(groups, state)
    return store.save(POSITION.step, groups, state)


def test_what_was_saved_is_put_back(store, make_step):
    old, new = make_step(seed=1), make_step(seed=2)
    old.loss_scale.assign(8.0)
    save(store, old)
    assert restore(store.load_latest(), new, IDENTITY) == POSITION
    assert new.loss_scale.numpy() == 8.0
    for group, arrays in groups_of(old).items():
        for name, array in arrays.items():
            np.testing.assert_array_equal(groups_of(new)[group][name], array)


def test_another_architecture_is_refused_and_nothing_is_half_loaded(store, make_step):
    path = save(store, make_step(channels=24))
    new = make_step()
    before = [weight.numpy() for weight in new.weights]
    with pytest.raises(CheckpointError, match="weights does not fit this model") as caught:
        restore(store.load_latest(), new, IDENTITY)
    assert str(path) in str(caught.value) and "--fresh" in str(caught.value)
    for weight, value in zip(new.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


def test_another_size_is_refused_by_its_name(store, make_step):
    save(store, make_step())
    with pytest.raises(CheckpointError, match=r"model size differs .*\(tiny there, small here\)"):
        restore(store.load_latest(), make_step(), {**IDENTITY, "model_size": "small"})


def test_a_changed_symbol_table_is_refused(store, make_step):
    """By the index, whose fingerprint it is part of; and where that were the same, by its size."""
    save(store, make_step(num_symbols=6))
    new = make_step(num_symbols=7)
    with pytest.raises(CheckpointError, match="its index differs from this run's"):
        restore(store.load_latest(), new, {**IDENTITY, "index": "e" * 64})
    with pytest.raises(CheckpointError, match="weights does not fit this model"):
        restore(store.load_latest(), new, IDENTITY)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda groups, state: groups.pop("ema"), "no ema"),
        (lambda groups, state: state.pop("counters"), "no counters"),
        (lambda groups, state: state["counters"].pop("loss_scale"), "no counters/loss_scale"),
        (lambda groups, state: state.update(position=[7]), "no position"),
        (lambda groups, state: state["position"].pop("step"), "no position/step"),
        (lambda groups, state: state["position"].update(pace=2), "an unknown position/pace"),
        (lambda groups, state: state.pop("exclusions"), "no exclusions"),
    ],
)
def test_what_another_version_left_out_or_added_is_named(store, make_step, change, problem):
    path = save(store, make_step(), change)
    with pytest.raises(CheckpointError) as caught:
        restore(store.load_latest(), make_step(seed=2), IDENTITY)
    assert str(caught.value) == (
        f"{path}: it has {problem}, so another version of Tandem made it. Go on with that version, "
        "choose another --run-dir, or --fresh to start over."
    )


@pytest.mark.parametrize("identity", [None, [], "tiny"])
def test_a_checkpoint_of_nobody_is_refused(store, make_step, identity):
    save(store, make_step(), lambda groups, state: state.update(identity=identity))
    with pytest.raises(CheckpointError, match=r"its index differs .*\(None there"):
        restore(store.load_latest(), make_step(), IDENTITY)
