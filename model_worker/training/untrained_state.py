"""What a model keeps beside its weights: moving statistics, seeds of its random numbers.

It changes while a loss is computed, before anyone knows whether the step will be taken. A step
that is not taken must leave nothing behind, so it is noted before each group and put back then.
"""

from __future__ import annotations

import keras
import tensorflow as tf


class UntrainedState:
    """A model's variables that no gradient moves, named by place; false where it has none."""

    def __init__(self, model: keras.Model):
        found = {id(v): v for v in model.variables if not v.trainable}
        self.keras_variables: list[keras.Variable] = list(found.values())
        self.variables: dict[str, tf.Variable] = {
            f"{i:03d}.{v.path.rsplit('/')[-1]}": v.value for i, v in enumerate(self.keras_variables)
        }
        self._noted = [tf.Variable(v, trainable=False) for v in self.variables.values()]
        self._is_noted = tf.Variable(False, trainable=False)

    def __bool__(self) -> bool:
        return bool(self.variables)

    def note(self) -> None:
        """Before a batch: remember it all, unless the batch goes on with a group."""

        def remember() -> tf.Tensor:
            for noted, variable in zip(self._noted, self.variables.values(), strict=True):
                noted.assign(variable)
            return tf.constant(True)

        if self:
            tf.cond(self._is_noted.read_value(), lambda: tf.constant(True), remember)
            self._is_noted.assign(True)

    def accept(self) -> None:
        """Keep the state as it is now."""
        if self:
            self._is_noted.assign(False)

    def put_back(self) -> None:
        """Have the state as it was before the group again, if one has begun."""

        def back() -> tf.Tensor:
            for noted, variable in zip(self._noted, self.variables.values(), strict=True):
                variable.assign(noted)
            return tf.constant(True)

        if self:
            tf.cond(self._is_noted.read_value(), back, lambda: tf.constant(True))
            self._is_noted.assign(False)

    def is_finite(self) -> tf.Tensor:
        """Whether all of it are numbers, bool scalar."""
        floats = [v for v in self.variables.values() if v.dtype.is_floating]
        return tf.reduce_all([tf.reduce_all(tf.math.is_finite(v)) for v in floats] or [True])
