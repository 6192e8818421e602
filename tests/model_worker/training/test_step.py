"""The optimizer step: groups of batches, broken numbers, averaged weights, one graph."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from model_worker.speech import losses
from model_worker.speech.network import acoustic_model
from model_worker.speech.network.acoustic_model import build_model
from model_worker.speech.task import SpeechModel
from model_worker.training.step import Compiled, StepSettings, TrainStep
from shared.config.settings import Config
from shared.speech.batch import FORM
from shared.speech.corpus_statistics import Statistics
from shared.task import BatchShape

# All parts of the model, as small as they go: what is tested here is the step.
acoustic_model.SHAPES["smallest"] = acoustic_model.ModelShape(
    16, 1, 16, 1, 8, 8, 1, 4, dropout=0.0, prosody_dropout=0.0
)
UNMEASURABLE = 99  # a speaker
STATISTICS = Statistics(-5.0, 2.0, 5.0, 0.3, 0.0, 1.0)


def make_batch(rows: int, symbols: int = 9, frames: int = 40, seed: int = 0) -> dict:
    random = np.random.default_rng(seed)
    arrays = {
        n: np.zeros(s, d)
        for n, (d, s) in BatchShape(rows, (frames, symbols), FORM).arrays().items()
    }
    arrays["symbols"][:] = random.integers(1, 20, (rows, symbols))
    arrays["symbol_lengths"][:] = random.integers(4, symbols + 1, rows)
    arrays["mel_lengths"][:] = random.integers(20, frames + 1, rows)
    arrays["mel"][:] = random.normal(-5, 2, arrays["mel"].shape)
    arrays["reference_mel"][:] = random.normal(-5, 2, arrays["reference_mel"].shape)
    arrays["pitch"][:] = random.uniform(80, 300, arrays["pitch"].shape)
    arrays["energy"][:] = random.uniform(0.1, 5, arrays["energy"].shape)
    arrays["weight"][:] = 1.0
    return arrays


def tensors(arrays: dict) -> dict:
    return {name: tf.constant(array) for name, array in arrays.items()}


def make_step(**settings) -> TrainStep:
    keras.utils.set_random_seed(7)
    model = build_model("smallest", 20, STATISTICS)
    return TrainStep(model, SpeechModel(Config()), FORM.signature(), StepSettings(**settings))


def begin_again(step: TrainStep, initial: list[np.ndarray]) -> TrainStep:
    """Back to the first weights; a new step would cost a new graph."""
    for weight, average, value in zip(step.weights, step.averages, initial, strict=True):
        weight.assign(value)
        average.assign(value)
    optimizer = step.players[0].optimizer
    moments = [*optimizer.first_moments.values(), *optimizer.second_moments.values()]
    for variable in [*moments, step.num_applied]:
        variable.assign(tf.zeros_like(variable))
    step.drop_group()
    step.read_metrics()
    return step


def values(variables) -> np.ndarray:
    return np.concatenate([variable.numpy().ravel() for variable in variables])


def first_moments(step: TrainStep) -> np.ndarray:
    return values(step.players[0].optimizer.first_moments.values())


@pytest.fixture(scope="module")
def steps():
    """A step of one batch, a step of two, and the weights that both begin with.

    What one speaker says has an infinite loss, by a constant that no gradient knows of.
    """
    loss_parts = losses.loss_parts

    def with_the_unmeasurable(outputs, batch):
        parts = loss_parts(outputs, batch)
        parts["mel"] += tf.where(batch["speaker"][0] == UNMEASURABLE, np.inf, 0.0)
        return parts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "loss_parts", with_the_unmeasurable)
        single, double = make_step(), make_step(grad_accum=2)
        np.testing.assert_array_equal(values(single.weights), values(double.weights))
        yield single, double, [weight.numpy() for weight in single.weights]


@pytest.fixture
def single(steps) -> TrainStep:
    return begin_again(steps[0], steps[2])


@pytest.fixture
def double(steps) -> TrainStep:
    return begin_again(steps[1], steps[2])


def test_a_group_of_batches_equals_one_large_batch(single, double):
    large = make_batch(6)
    before = values(single.weights)
    single(tensors(large), 0, 1e-3, 0.999, True)
    # Of unequal size, so that a mean of means would be wrong.
    double(tensors({name: array[:2] for name, array in large.items()}), 0, 1e-3, 0.999, False)
    double(tensors({name: array[2:] for name, array in large.items()}), 0, 1e-3, 0.999, True)
    assert np.abs(values(single.weights) - before).max() > 1e-4
    # Adam's first step is the sign of the gradient, so compare what went into it.
    np.testing.assert_allclose(first_moments(double), first_moments(single), rtol=1e-3, atol=2e-6)
    assert single.read_metrics()["loss"] == pytest.approx(double.read_metrics()["loss"], rel=1e-4)


def test_an_unfinished_group_can_be_dropped(double, steps):
    def train_two() -> np.ndarray:
        double(tensors(make_batch(2, seed=2)), 0, 1e-3, 0.999, False)
        double(tensors(make_batch(2, seed=3)), 0, 1e-3, 0.999, True)
        return values(double.weights)

    expected = train_two()
    begin_again(double, steps[2])
    double(tensors(make_batch(2, seed=1)), 0, 1e-3, 0.999, False)
    double.drop_group()
    np.testing.assert_array_equal(train_two(), expected)


def test_a_step_without_a_finite_gradient_changes_nothing_and_is_counted(single):
    before, moments = values(single.weights), first_moments(single)
    broken = make_batch(2)
    broken["mel"][0, 3, 5] = np.nan
    single(tensors(broken), 0, 1e-3, 0.999, True)
    single(tensors(broken), 1, 1e-3, 0.999, True)
    np.testing.assert_array_equal(values(single.weights), before)
    np.testing.assert_array_equal(first_moments(single), moments)
    assert single.nonfinite_in_row.numpy() == 2
    single(tensors(make_batch(2)), 2, 1e-3, 0.999, True)
    assert single.nonfinite_in_row.numpy() == 0 and single.num_nonfinite.numpy() >= 2
    assert np.isfinite(single.read_metrics()["loss"])


def unmeasurable(batch):
    """Every gradient of such a batch is finite, and its loss is not: see `steps`."""
    batch["speaker"][:] = UNMEASURABLE
    return batch


def test_a_loss_that_is_not_finite_changes_nothing_even_if_its_gradient_is(single):
    before = values(single.weights)
    single(tensors(unmeasurable(make_batch(2))), 0, 1e-3, 0.999, True)
    assert np.isfinite(single.read_metrics()["gradient_norm"])
    assert single.nonfinite_in_row.numpy() == 1
    np.testing.assert_array_equal(values(single.weights), before)
    single(tensors(make_batch(2)), 1, 1e-3, 0.999, True)
    assert single.nonfinite_in_row.numpy() == 0


def test_one_broken_loss_spoils_its_group_and_no_other(double):
    before = values(double.weights)
    double(tensors(unmeasurable(make_batch(2))), 0, 1e-3, 0.999, False)
    double(tensors(make_batch(2)), 0, 1e-3, 0.999, True)
    np.testing.assert_array_equal(values(double.weights), before)
    assert double.nonfinite_in_row.numpy() == 1
    for is_last in (False, True):
        double(tensors(make_batch(2)), 1, 1e-3, 0.999, is_last)
    assert double.nonfinite_in_row.numpy() == 0
    assert np.abs(values(double.weights) - before).max() > 1e-4


def test_a_loss_scale_that_is_too_large_is_lowered_and_blames_no_batch(single):
    step, batch = make_step(loss_scaling=True), tensors(make_batch(3))
    before = values(step.weights)
    step.loss_scale.assign(1e38)
    step(batch, 0, 1e-3, 0.999, True)
    np.testing.assert_array_equal(values(step.weights), before)
    assert step.loss_scale.numpy() == pytest.approx(5e37)
    assert step.nonfinite_in_row.numpy() == 0 and step.num_nonfinite.numpy() == 1
    step.loss_scale.assign(2.0**15)
    step(batch, 0, 1e-3, 0.999, True)
    single(batch, 0, 1e-3, 0.999, True)
    np.testing.assert_allclose(first_moments(step), first_moments(single), rtol=1e-3, atol=2e-6)
    # Without a scale to blame it is the batches, and so it is where the loss itself is broken.
    broken = make_batch(3)
    broken["mel"][0, 3, 5] = np.nan
    for number, scale in enumerate((1.0, 2.0**15), start=1):
        step.loss_scale.assign(scale)
        step(tensors(broken), 1, 1e-3, 0.999, True)
        assert step.nonfinite_in_row.numpy() == number and step.loss_scale.numpy() == scale


def test_rows_of_weight_zero_teach_nothing(single, steps):
    full, filled = make_batch(3, seed=5), make_batch(3, seed=5)
    filled["weight"][2] = full["weight"][2] = 0.0
    filled["mel"][2] = 3.0
    filled["symbols"][2] = 1
    single(tensors(full), 0, 1e-3, 0.999, True)
    expected = first_moments(single)
    begin_again(single, steps[2])
    single(tensors(filled), 0, 1e-3, 0.999, True)
    np.testing.assert_allclose(first_moments(single), expected, atol=1e-7)


def test_one_graph_serves_all_shapes(single):
    single.warm_up()
    traces = single.num_traces
    for rows, symbols, frames in ((2, 9, 40), (3, 12, 64), (4, 16, 80)):
        single(tensors(make_batch(rows, symbols, frames)), 5, 1e-3, 0.999, True)
    assert single.num_traces == traces == 1


def test_the_averaged_weights_can_be_swapped_in_and_out(single):
    single(tensors(make_batch(2)), 9, 1e-2, 0.999, True)
    own = values(single.weights)
    kept = single.swap_in_averages()
    np.testing.assert_array_equal(values(single.weights), values(single.averages))
    assert not np.array_equal(values(single.weights), own)
    single.restore_weights(kept)
    np.testing.assert_array_equal(values(single.weights), own)


def test_a_step_under_xla_equals_the_plain_one(single):
    step, batch = make_step(compiled=Compiled.WHOLE), tensors(make_batch(3))
    step.warm_up()
    step(batch, 0, 1e-3, 0.999, True)
    single(batch, 0, 1e-3, 0.999, True)
    np.testing.assert_allclose(first_moments(step), first_moments(single), rtol=1e-3, atol=2e-6)
    assert step.read_metrics()["loss"] == pytest.approx(single.read_metrics()["loss"], rel=1e-4)
    assert step.num_traces == 1 and step.num_nonfinite.numpy() == 0


def test_an_update_that_is_compiled_moves_and_skips_as_one_that_branches(single):
    step = make_step(compiled=Compiled.UPDATE)
    broken = make_batch(2)
    broken["mel"][0, 3, 5] = np.nan
    for number, arrays in enumerate((make_batch(3), broken, make_batch(3, seed=1))):
        before = values(step.weights), first_moments(step), values(step.averages)
        for each in (step, single):
            each(tensors(arrays), number, 1e-3, 0.9, True)
        after = values(step.weights), first_moments(step), values(step.averages)
        assert all(map(np.array_equal, before, after)) == (number == 1)
        for found, expected in zip(
            after[1:], (first_moments(single), values(single.averages)), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-5)
        assert step.num_applied.numpy() == single.num_applied.numpy() == (1, 1, 2)[number]
        assert step.nonfinite_in_row.numpy() == single.nonfinite_in_row.numpy() == (0, 1, 0)[number]
