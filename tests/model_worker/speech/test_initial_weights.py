"""Fine-tuning begins with another run's weights, whatever the numbers of its symbols."""

from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from model_worker.checkpoints.files import Checkpoint
from model_worker.speech.network import acoustic_model
from model_worker.speech.network.acoustic_model import build_model
from model_worker.speech.task import SpeechModel
from model_worker.training.begin_from import begin_with
from model_worker.training.state import groups_of, restore
from model_worker.training.step import StepSettings, TrainStep
from shared.config.settings import Config
from shared.errors import CheckpointError
from shared.speech.batch import FORM
from shared.speech.corpus_statistics import Statistics

STATISTICS = Statistics(-5.0, 2.0, 5.0, 0.3, 0.0, 1.0)
SPEECH = SpeechModel(Config())
OLD_TABLE = ["_", "<s>", "</s>", "a", "b", "c"]
NEW_TABLE = ["_", "<s>", "</s>", "c", "d", "a", "b"]


def make_step(seed: int, num_symbols: int, channels: int = 16) -> TrainStep:
    shape = acoustic_model.ModelShape(channels, 1, 16, 1, 8, 8, 1, 4, 0.0)
    acoustic_model.SHAPES["fine-tuned"] = shape
    keras.utils.set_random_seed(seed)
    model = build_model("fine-tuned", num_symbols, STATISTICS)
    return TrainStep(model, SPEECH, FORM.signature(), StepSettings())


def begin(checkpoint: Checkpoint, known: list[str], step: TrainStep, table: list[str]) -> str:
    other, index = SimpleNamespace(symbol_table=known), SimpleNamespace(symbol_table=table)
    return begin_with(checkpoint, other, step._model, step, SPEECH, index)


def checkpoint_of(step: TrainStep) -> Checkpoint:
    for average in step.averages:
        average.assign_add(np.full(average.shape, 0.5, np.float32))
    return Checkpoint(Path("old"), 7, groups_of(step), {})


def test_weights_are_the_other_runs_averages_and_symbols_keep_their_meaning():
    old, new = make_step(1, len(OLD_TABLE)), make_step(2, len(NEW_TABLE))
    place = next(i for i, n in enumerate(new.names) if n.endswith(".embeddings"))
    untouched = new.weights[place].numpy()
    checkpoint = checkpoint_of(old)
    remark = begin(checkpoint, OLD_TABLE, new, NEW_TABLE)
    assert remark == "Not in it, so learned from scratch: 1 symbols (d)"
    for i, name in enumerate(new.names):
        np.testing.assert_array_equal(new.averages[i].numpy(), new.weights[i].numpy())
        if i != place:
            np.testing.assert_array_equal(
                new.weights[i].numpy(), checkpoint.groups["ema"][name], err_msg=name
            )
    given, found = old.averages[place].numpy(), new.weights[place].numpy()
    for symbol in OLD_TABLE:
        row = found[NEW_TABLE.index(symbol)]
        np.testing.assert_array_equal(row, given[OLD_TABLE.index(symbol)], err_msg=symbol)
    np.testing.assert_array_equal(found[4], untouched[4])


def test_another_model_is_refused_and_nothing_is_half_loaded():
    wide, new = make_step(1, len(OLD_TABLE), channels=24), make_step(2, len(NEW_TABLE))
    before = [weight.numpy() for weight in new.weights]
    with pytest.raises(CheckpointError, match="--model-size"):
        begin(checkpoint_of(wide), OLD_TABLE, new, NEW_TABLE)
    for weight, value in zip(new.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


def test_a_checkpoint_of_another_version_names_what_to_do():
    wide, new = make_step(1, len(OLD_TABLE), channels=24), make_step(2, len(OLD_TABLE))
    with pytest.raises(CheckpointError, match="does not fit this model.*--run-dir, or --fresh"):
        restore(checkpoint_of(wide), new, identity={})
