"""A task with all that speech has not: two players, Keras optimizers, moving statistics, seeds."""

import keras
import numpy as np
import tensorflow as tf

from shared.config.settings import Config
from shared.task import Array, BatchForm, ModelSide

FORM = BatchForm({"x": Array("float32", 6), "y": Array("float32", 3)})


class ToyModel(keras.Model):
    """A generator with batch normalisation and dropout, and a critic of what it makes."""

    def __init__(self):
        super().__init__()
        self.generator = keras.Sequential(
            [
                keras.Input((6,)),
                keras.layers.Dense(8, activation="tanh"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.25),
                keras.layers.Dense(3),
            ]
        )
        self.critic = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)]
        )
        self.built = True


class ToyGan(ModelSide):
    """Learns to make y of x; the critic learns to tell what is made from what is real."""

    judged_by = "generator/l1"
    judged_in_words = "error"

    def build(self, facts):
        return ToyModel()

    def losses(self, model, batch, training, step):
        weight = batch["weight"]
        made = model.generator(batch["x"], training=training)
        of_made, of_real = model.critic(made)[:, 0], model.critic(batch["y"])[:, 0]
        error = tf.reduce_mean(tf.abs(made - batch["y"]), axis=1)
        return {
            "generator/l1": tf.reduce_sum(weight * error),
            "generator/adversarial": 0.1 * tf.reduce_sum(weight * tf.square(of_made - 1.0)),
            "critic/real": tf.reduce_sum(weight * tf.square(of_real - 1.0)),
            "critic/made": tf.reduce_sum(weight * tf.square(of_made)),
        }

    def players(self, model):
        return {
            "generator": model.generator.trainable_variables,
            "critic": model.critic.trainable_variables,
        }

    def optimizer(self, player):
        return keras.optimizers.Adam(1e-2) if player == "generator" else None


class OneLoss(ModelSide):
    """The least that a task can be."""

    def build(self, facts):
        return keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])

    def losses(self, model, batch, training, step):
        error = tf.reduce_mean(tf.square(model(batch["x"]) - batch["y"]), axis=1)
        return {"loss": tf.reduce_sum(error * batch["weight"])}


def toy(task=ToyGan, seed=3):
    """The task and its model, the same each time."""
    keras.utils.set_random_seed(seed)
    side = task(Config())
    return side, side.build(None)


def toy_batch(number: int, rows: int = 5) -> dict[str, tf.Tensor]:
    random = np.random.default_rng(number)
    return {
        "x": tf.constant(random.normal(2.0, 1.5, (rows, 6)), tf.float32),
        "y": tf.constant(random.normal(size=(rows, 3)), tf.float32),
        "weight": tf.ones(rows),
        "rows": tf.range(rows),
    }
