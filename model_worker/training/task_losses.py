"""What a task's losses say of a batch, held against what training needs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf

from shared.errors import TaskError
from shared.task.model_side import ModelSide
from shared.task.users_file import line_of

Signature = Mapping[str, tuple[str, tuple[int | None, ...]]]


def specs_of(signature: Signature) -> dict[str, tf.TensorSpec]:
    """The arrays of any batch, as a graph is traced for them."""
    return {name: tf.TensorSpec(shape, dtype) for name, (dtype, shape) in signature.items()}


def measured(
    task: ModelSide,
    model: keras.Model,
    batch: dict[str, tf.Tensor],
    training: bool,
    step: tf.Tensor,
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """The parts of a batch's loss, and what they are divided by; float32 scalars. For a graph.

    Raises:
        TaskError: they are something else.
    """
    parts = task.losses(model, batch, training, step)
    if not isinstance(parts, Mapping) or not parts:
        raise TaskError(
            f"{line_of(task.losses)}: returned {type(parts).__name__}; expected a dictionary with "
            "the parts of the loss, each a number."
        )
    if task.judged_by is not None and task.judged_by not in parts:
        raise TaskError(
            f"{line_of(task.losses)}: returned no part {task.judged_by!r}, by which the task says "
            f"it is judged. Its parts: {', '.join(map(str, parts))}."
        )
    numbers = {name: _scalar(task.losses, f"part {name!r}", v) for name, v in parts.items()}
    weight = tf.convert_to_tensor(task.weight(batch))
    return numbers, tf.cast(weight if weight.shape.rank == 0 else tf.reduce_sum(weight), tf.float32)


def _scalar(method: Callable[..., Any], what: str, value: Any) -> tf.Tensor:
    value = tf.convert_to_tensor(value)
    if value.shape.rank not in (0, None):
        raise TaskError(
            f"{line_of(method)}: {what} has the shape {tuple(value.shape)}; expected one number, "
            "summed over the batch's real examples."
        )
    return tf.cast(value, tf.float32)


def parts_of(task: ModelSide, model: keras.Model, signature: Signature) -> tuple[str, ...]:
    """The names of the parts, as the task declares them or as one trace finds them.

    Raises:
        TaskError: the losses are not what they must be, or made variables of the model.
    """
    if task.parts is not None:
        return tuple(task.parts)
    found: dict[str, None] = {}
    num_variables = len(model.variables)

    def look(batch: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        parts, _ = measured(task, model, batch, True, step)
        found.update(dict.fromkeys(parts))

    step = tf.TensorSpec([], tf.int32)
    tf.function(look, autograph=False).get_concrete_function(specs_of(signature), step)
    if len(model.variables) != num_variables:
        raise TaskError(
            f"{line_of(task.build)}: the model got new variables when its losses were first "
            "computed. Use it once in 'build', on a batch of zeros, so that all of them are there."
        )
    return tuple(found)


def check_parts(task: ModelSide, found: Iterable[str], known: Iterable[str]) -> None:
    """The losses return the same parts each time they are traced.

    Raises:
        TaskError: they don't.
    """
    found, known = set(found), set(known)
    if found != known:
        raise TaskError(
            f"{line_of(task.losses)}: returned the parts {', '.join(sorted(found))}; expected "
            f"{', '.join(sorted(known))}, the same for every batch."
        )
