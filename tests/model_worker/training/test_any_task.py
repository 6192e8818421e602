"""A task that is not speech trains by the same promises: nothing lost, nothing left behind."""

import itertools
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from toy_task import FORM, OneLoss, ToyGan, toy, toy_batch

from model_worker.checkpoints.store import CheckpointStore
from model_worker.training.built_model import built_model
from model_worker.training.state import Position, groups_of, restore, state_of
from model_worker.training.step import StepSettings, TrainStep
from model_worker.training.validation import Validation
from shared.errors import CheckpointError, TaskError

SIGNATURE = FORM.signature()
IDENTITY = {"index": "f" * 64}


def make_step(task=ToyGan, seed=3, **settings):
    side, model = toy(task, seed)
    return TrainStep(model, side, SIGNATURE, StepSettings(**settings))


def train(step, numbers, accum=1, rate=1e-2):
    for number in numbers:
        for part in range(accum):
            step(toy_batch(number * accum + part), number, rate, 0.99, part == accum - 1)


def everything(step):
    """All that a checkpoint holds."""
    return groups_of(step), state_of(step, Position(), [], IDENTITY)["counters"]


def assert_same(found, expected, but=()):
    (groups, counters), (expected_groups, expected_counters) = found, expected
    assert {n: v for n, v in counters.items() if n not in but} == {
        n: v for n, v in expected_counters.items() if n not in but
    }
    assert groups.keys() == expected_groups.keys()
    for group, arrays in expected_groups.items():
        assert groups[group].keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(groups[group][name], array, f"{group}/{name}")


def save(store, step, change=lambda groups: None):
    groups, state = groups_of(step), state_of(step, Position(step=3), [], IDENTITY)
    change(groups)
    store.save(3, groups, state)
    return store.load_latest()


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "checkpoints")


class StockGan(ToyGan):
    """Both players have Keras optimizers of the task's own, one with a schedule."""

    def optimizer(self, player):
        if player == "critic":
            return keras.optimizers.RMSprop(1e-3, momentum=0.9, centered=True)
        schedule = keras.optimizers.schedules.ExponentialDecay(1e-2, 2, 0.9)
        return keras.optimizers.AdamW(schedule, amsgrad=True, use_ema=True)


ENGINES_GROUPS = {"first_moments", "second_moments"}


@pytest.mark.parametrize(("task", "has_engines"), [(ToyGan, True), (StockGan, False)])
@pytest.mark.parametrize("accum", [1, 4])
def test_a_run_that_was_killed_ends_in_the_same_bytes(store, accum, task, has_engines):
    uninterrupted = make_step(task, grad_accum=accum)
    train(uninterrupted, range(7), accum)
    killed = make_step(task, grad_accum=accum)
    train(killed, range(4), accum)
    for part in range(accum // 2):  # a stop in the midst of a group
        killed(toy_batch(4 * accum + part), 4, 1e-2, 0.99, False)
    killed.drop_group()
    checkpoint = save(store, killed)
    groups = {"weights", "ema", "state", "optimizer"}
    assert set(checkpoint.groups) == groups | (ENGINES_GROUPS if has_engines else set())
    again = make_step(task, seed=8, grad_accum=accum)
    restore(checkpoint, again, IDENTITY)
    assert_same(everything(again), everything(killed))
    train(again, range(4, 7), accum)
    assert_same(everything(again), everything(uninterrupted))


def test_a_checkpoint_holds_what_no_gradient_moves(store):
    step = make_step()
    train(step, range(3))
    groups = save(store, step).groups
    generator = [name for name in groups["optimizer"] if name.startswith("generator/")]
    assert generator == list(groups["optimizer"])  # the critic has the engine's optimizer
    assert groups["optimizer"]["generator/000.iteration"] == 3
    assert len(groups["first_moments"]) == 4 and len(groups["weights"]) == 10
    kept = {name.partition(".")[2]: array for name, array in groups["state"].items()}
    assert np.abs(kept["moving_mean"]).max() > 0
    assert kept["seed_generator_state"][1] == 3  # numbers drawn, and the seed before it


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda groups: groups.pop("state"), "it has no state, so another version"),
        (lambda groups: groups.pop("optimizer"), "it has no optimizer, so another version"),
        (
            lambda groups: groups.update(more={"x": np.zeros(2)}),
            "it has an unknown more, so another version",
        ),
        (lambda groups: groups["state"].popitem(), "state does not fit this model"),
        (
            lambda groups: groups["optimizer"].update(more=np.zeros(2)),
            "optimizer does not fit this model",
        ),
    ],
)
def test_a_checkpoint_with_other_state_is_refused(store, change, problem):
    step = make_step()
    checkpoint = save(store, step, change)
    with pytest.raises(CheckpointError, match=problem):
        restore(checkpoint, step, IDENTITY)


def test_a_checkpoint_of_another_task_is_refused_by_its_name(store):
    step = make_step()
    checkpoint = save(store, step)
    named = {"task": {"name": "mine.py", "sha256": "a" * 64}, **IDENTITY}
    with pytest.raises(CheckpointError, match=r"its task differs .* here\)"):
        restore(checkpoint, step, named)


def with_a_nan(batch, name):
    values = batch[name].numpy()
    values[1, 1] = np.nan
    return {**batch, name: tf.constant(values)}


@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("accum", [1, 4])
def test_a_batch_whose_numbers_are_none_leaves_no_trace(accum, name):
    step = make_step(grad_accum=accum)
    train(step, range(2), accum)
    before = everything(step)
    for part in range(accum):
        batch = toy_batch(100 + part)
        spoilt = with_a_nan(batch, name) if part == min(1, accum - 1) else batch
        step(spoilt, 2, 1e-2, 0.99, part == accum - 1)
    assert step.nonfinite_in_row.numpy() == 1
    assert_same(everything(step), before, but=("num_nonfinite", "nonfinite_in_row"))
    train(step, range(3, 4), accum)
    assert step.nonfinite_in_row.numpy() == 0 and step.num_applied.numpy() == 3


class WatchesItself(ToyGan):
    """Has a loss that is finite where its moving statistics are not."""

    def losses(self, model, batch, training, step):
        parts = super().losses(model, batch, training, step)
        finite = {n: tf.where(tf.math.is_finite(p), p, 0.0) for n, p in parts.items()}
        return finite


def test_statistics_that_are_no_numbers_never_reach_a_checkpoint():
    step = make_step(WatchesItself)
    train(step, range(1))
    before = everything(step)
    step(with_a_nan(toy_batch(7), "x"), 1, 1e-2, 0.99, True)
    assert_same(everything(step), before, but=("num_nonfinite", "nonfinite_in_row"))


class Plain(ToyGan):
    """As in validation: no dropout, and the moving statistics as they are."""

    def losses(self, model, batch, training, step):
        return super().losses(model, batch, False, step)


def test_a_group_of_four_batches_equals_one_large_batch():
    large = {name: tensor.numpy() for name, tensor in toy_batch(5, rows=14).items()}
    whole, grouped = make_step(Plain), make_step(Plain, grad_accum=4)
    whole({n: tf.constant(a) for n, a in large.items()}, 0, 1e-2, 0.99, True)
    ends = [0, 2, 3, 8, 14]  # of unequal size, so that a mean of means would be wrong
    for first, last in itertools.pairwise(ends):
        part = {name: tf.constant(array[first:last]) for name, array in large.items()}
        grouped(part, 0, 1e-2, 0.99, last == 14)
    found, expected = groups_of(grouped), groups_of(whole)
    for group in ("first_moments", "optimizer"):  # both linear in the gradients, or nearly so
        for name, array in expected[group].items():
            np.testing.assert_allclose(found[group][name], array, rtol=1e-3, atol=1e-6)
    metrics, expected = grouped.read_metrics(), whole.read_metrics()
    for name in ("loss", "loss_critic/real", "gradient_norm"):
        assert metrics[name] == pytest.approx(expected[name], rel=1e-4)


def test_each_batch_of_a_group_moves_the_statistics_once():
    step = make_step(grad_accum=4)
    generator = step._model.generator
    hidden = keras.Sequential(generator.layers[:1])
    mean = np.zeros(8)
    for part in range(4):
        mean = 0.99 * mean + 0.01 * hidden(toy_batch(part)["x"]).numpy().mean(axis=0)
    train(step, range(1), accum=4)
    np.testing.assert_allclose(generator.layers[1].moving_mean.numpy(), mean, rtol=1e-4, atol=1e-6)


def test_each_player_moves_by_its_own_rate_and_its_own_loss():
    step = make_step()
    before = groups_of(step)["weights"]
    train(step, range(2), rate=0.0)  # the engine's; the generator's Adam has its own
    after = groups_of(step)["weights"]
    moved = [name for name in after if not np.array_equal(after[name], before[name])]
    assert len(moved) == 6  # two layers and the normalisation between them, of ten variables
    assert np.array_equal(after["009.bias"], before["009.bias"])
    train(step, range(2), rate=1e-2)
    assert not np.array_equal(groups_of(step)["weights"]["009.bias"], before["009.bias"])


def test_a_validation_changes_nothing_and_is_judged_by_what_the_task_says():
    class Noisy(ToyGan):
        def losses(self, model, batch, training, step):
            return super().losses(model, batch, True, step)  # draws from the seeds all the same

    side, model = toy(Noisy)
    step = TrainStep(model, side, SIGNATURE, StepSettings())
    train(step, range(2))
    before, seen = everything(step), []
    validation = Validation(model, side, SIGNATURE, step, seen.append)
    for number in (50, 51):
        validation.add(toy_batch(number))
    judged = validation.finish()
    assert judged == validation.last["val_generator/l1"] == validation.last[validation.judged_by]
    assert len(seen) == 2 and len(validation.last) == 5
    assert_same(everything(step), before)


def test_a_task_with_one_loss_and_no_more_is_trained_and_judged_by_it():
    side, model = toy(OneLoss)
    step = TrainStep(model, side, SIGNATURE, StepSettings())
    assert set(groups_of(step)) == {"weights", "first_moments", "second_moments", "ema"}
    validation = Validation(model, side, SIGNATURE, step, lambda batch: None)
    losses = []
    for number in range(3):
        train(step, range(10 * number, 10 * number + 10), rate=3e-2)
        validation.add(toy_batch(5))
        losses.append(validation.finish())
    assert losses[0] > losses[1] > losses[2] and validation.judged_by == "val_loss"


def changed(**methods):
    return type("Changed", (OneLoss,), methods)


def nothing_learned(self, model, batch, training, step):
    return {"loss": tf.reduce_sum(tf.stop_gradient(model(batch["x"])))}


def one_for_each_row(self, model, batch, training, step):
    return {"loss": tf.reduce_mean(model(batch["x"]), axis=1)}


def alone(self, model, batch, training, step):
    return tf.reduce_sum(model(batch["x"]))


def of_nobody(self, model, batch, training, step):
    return {"critic/loss": tf.reduce_sum(model(batch["x"]))}


def too_many(self, model):
    return {"a": model.trainable_variables, "b": model.trainable_variables}


def not_the_models(self, model):
    return {"": [*model.trainable_variables, keras.Variable(0.0)]}


def no_optimizer(self, player):
    return "adam"


def unfinished(self, facts):
    return keras.Sequential([keras.layers.Dense(3)])


def no_model(self, facts):
    return keras.layers.Dense(3)


def with_a_late_layer(self, facts):
    model = keras.Model()
    model.first, model.late = keras.layers.Dense(3), keras.layers.Dense(3)
    model.first(tf.zeros([1, 6]))
    return model


def by_its_late_layer(self, model, batch, training, step):
    return {"loss": tf.reduce_sum(model.late(model.first(batch["x"])))}


@pytest.mark.parametrize(
    ("methods", "sentence"),
    [
        ({"losses": nothing_learned}, r"\(nothing_learned\): the loss does not depend on any of"),
        ({"losses": one_for_each_row}, r"\(one_for_each_row\): part 'loss' has the shape \(None,"),
        ({"losses": alone}, r"\(alone\): returned .*Tensor; expected a dictionary"),
        ({"losses": of_nobody}, r"\(of_nobody\): the part 'critic/loss' belongs to no player"),
        (
            {"build": with_a_late_layer, "losses": by_its_late_layer},
            r"\(with_a_late_layer\): the model got new variables",
        ),
        ({"judged_by": "mel"}, r"\(losses\): returned no part 'mel', by which"),
        ({"players": too_many}, r"\(too_many\): a variable is there twice"),
        ({"players": not_the_models}, r"\(not_the_models\): the only player has .*variable"),
        ({"players": lambda self, model: {"": []}}, "has no variables to train"),
        ({"optimizer": no_optimizer}, r"\(no_optimizer\): returned str for the only player"),
        ({"build": unfinished}, r"\(unfinished\): the model has no variables to train"),
        ({"build": no_model}, r"\(no_model\): returned Dense; expected a keras.Model"),
    ],
)
def test_a_mistake_is_told_with_the_place_of_its_method(methods, sentence):
    from shared.config.settings import Config

    side = changed(**methods)(Config())
    with pytest.raises(TaskError, match=rf"test_any_task.py line \d+ .*{sentence}|{sentence}"):
        step = TrainStep(built_model(side, None), side, SIGNATURE, StepSettings())
        train(step, range(1))


def test_an_optimizer_serves_one_player_only():
    shared_by_both = keras.optimizers.Adam()
    task = type("Sharing", (ToyGan,), {"optimizer": lambda self, player: shared_by_both})
    with pytest.raises(TaskError, match="is in use already. Make a new one"):
        make_step(task)
