"""A task's model, with what training needs of one."""

from __future__ import annotations

import keras

from shared.errors import TaskError
from shared.task.model_side import Facts, ModelSide
from shared.task.users_file import line_of


def built_model(task: ModelSide, facts: Facts) -> keras.Model:
    """What the task builds of a run's facts.

    Raises:
        TaskError: it is no model, or has nothing to train yet.
    """
    model = task.build(facts)
    if not isinstance(model, keras.Model):
        raise TaskError(
            f"{line_of(task.build)}: returned {type(model).__name__}; expected a keras.Model."
        )
    if not model.trainable_variables:
        raise TaskError(
            f"{line_of(task.build)}: the model has no variables to train, as Keras could not build "
            "it. Give it an Input, and a Lambda no .numpy(); or use it once before returning it, on a "
            "batch of zeros, and Keras says at which line it fails."
        )
    return model
