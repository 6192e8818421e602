"""A step shared by replicas: added up in the order of the batches, it is that of one process."""

import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from toy_task import FORM, OneLoss, ToyGan, toy, toy_batch

from model_worker.training.shared_step import SharedStep
from model_worker.training.state import Position, groups_of, state_of
from model_worker.training.step import StepSettings, TrainStep
from shared.config.settings import Config
from shared.errors import TaskError

GRAD_ACCUM, RATE, EMA_DECAY = 4, 1e-2, 0.99


def make_step(task, **settings):
    side, model = toy(task)
    return TrainStep(model, side, FORM.signature(), StepSettings(**settings))


def everything(step):
    """All that a checkpoint holds, as bytes."""
    arrays = {
        f"{group}/{name}": array.tobytes()
        for group, each in groups_of(step).items()
        for name, array in each.items()
    }
    return arrays, state_of(step, Position(), [], {})["counters"]


class Replicas:
    """Replicas of one model, which take a step's batches in turns; their vectors are added here."""

    def __init__(self, task, count):
        self.steps = [make_step(task) for _ in range(count)]
        task = task(Config())
        self.shared = [SharedStep(step, task, FORM.signature()) for step in self.steps]
        for each in self.shared:
            each.warm_up()

    def train(self, batches, number):
        total, operands = np.zeros(self.shared[0].num_values, np.float32), []
        for place, batch in enumerate(batches):
            said = self.shared[place % len(self.shared)].say(batch, number, place)
            total += said.vector
            operands.append(said.operands)
            self.shared[0].note_log(said.log)
        for each in self.shared:
            each.apply(total, np.stack(operands), RATE, EMA_DECAY)


def spoilt(batch):
    values = batch["y"].numpy()
    values[0, 0] = np.nan
    return {**batch, "y": tf.constant(values)}


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("task", [OneLoss, ToyGan])
def test_replicas_end_in_the_bits_of_one_process(task, count):
    alone, replicas = make_step(task, grad_accum=GRAD_ACCUM), Replicas(task, count)
    for number in range(4):
        batches = [toy_batch(GRAD_ACCUM * number + place, 3 + place) for place in range(GRAD_ACCUM)]
        if number == 2:  # a step that nobody takes
            batches[1] = spoilt(batches[1])
        for place, batch in enumerate(batches):
            alone(batch, number, RATE, EMA_DECAY, place == GRAD_ACCUM - 1)
        replicas.train(batches, number)
    assert alone.num_nonfinite.numpy() == 1 and alone.num_applied.numpy() == 3
    for step in replicas.steps:
        assert everything(step) == everything(alone)
    assert replicas.steps[0].read_metrics() == alone.read_metrics()


class Keeping(keras.Model):
    """Has a variable beside its weights."""

    def __init__(self):
        super().__init__()
        self.dense = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
        self.mean = self.add_weight(name="mean", shape=(3,), trainable=False)
        self.built = True

    def call(self, inputs):
        return self.dense(inputs)


class Restless(OneLoss):
    """Keeps a mean that it also uses, as no replica could know it in time."""

    def build(self, facts):
        return Keeping()

    def losses(self, model, batch, training, step):
        made = model(batch["x"]) + model.mean
        model.mean.assign(0.9 * model.mean + 0.1 * tf.reduce_mean(made, axis=0))
        return {"loss": tf.reduce_sum(tf.square(made - batch["y"]))}


class Turning(Restless):
    """Keeps what no sum of its batches makes."""

    def losses(self, model, batch, training, step):
        parts = OneLoss.losses(self, model, batch, training, step)
        model.mean.assign(tf.math.l2_normalize(model.mean + tf.reduce_mean(batch["y"], axis=0)))
        return parts


@pytest.mark.parametrize("task", [Restless, Turning])
def test_what_replicas_can_not_share_is_refused_by_name(task):
    shared = SharedStep(make_step(task), task(Config()), FORM.signature())
    with pytest.raises(TaskError, match="changes .*mean of the model .* one --model-gpu"):
        shared.warm_up()
