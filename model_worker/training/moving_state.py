"""What moves beside the weights, in steps whose batches several replicas share.

Moving statistics and seeds move with every batch, one after the other. A replica has only some of a
step's batches, and has them at the same time as others have those before. But *how* a batch moves
such a variable stands in its graph: it is multiplied by this and then that is added to it. So the
graph is read backwards, once. Where all of these operands are constants (a seed that counts on), the
value that any batch begins with is computed ahead. Where they come from the batch alone (the mean of
its numbers), they are told to all replicas, and everyone does afterwards what one process would have
done, in the order of the batches and with the same rounding. Anything else can't be shared, and is
refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

_ALIKE = ("Identity", "StopGradient")
_OPERATIONS = {"AddV2": np.add, "Add": np.add, "Sub": np.subtract, "Mul": np.multiply}


class Move(NamedTuple):
    """One operation on a variable. operand: a constant, or which of a batch's numbers (a slice)."""

    operation: np.ufunc
    operand: np.ndarray | slice


class NotShareable(Exception):
    """Names a variable that batches move in a way that can't be taken apart."""


class MovingState:
    """The variables of a model that no gradient moves, and how each batch moves them."""

    def __init__(self, variables: Sequence[keras.Variable]):
        self._variables = list(variables)
        self.values = [variable.value for variable in self._variables]  # tf.Variable each
        self._moves: list[list[Move]] = [[] for _ in self._variables]
        self.num_operands = 0  # float32 numbers of each batch

    def scope(self, starts: Sequence[tf.Tensor]) -> keras.StatelessScope:
        """In it the variables have these values, and what they become is only noted."""
        return keras.StatelessScope(list(zip(self._variables, starts, strict=True)))

    def take_apart(
        self, scope: keras.StatelessScope, starts: Sequence[tf.Tensor], results: Iterable[tf.Tensor]
    ) -> tf.Tensor:
        """Find how a batch has moved each variable; its operands end to end, float32.

        Args:
            results: all else that the batch has to say, in the same graph.

        Raises:
            NotShareable: it can't be found, or something depends on what is known too late.
        """
        self._moves = []
        dynamic: list[tf.Tensor] = []
        own: list[tf.Tensor] = []  # the variables that are known only after the step
        for variable, start in zip(self._variables, starts, strict=True):
            chain = _chain(scope.get_current_value(variable), start)
            if chain is None:
                raise NotShareable(variable.path)
            moves, has_dynamic = [], False
            for operation, operand in chain:
                constant = tf.get_static_value(operand)
                if constant is None:
                    if operand.shape != start.shape or operand.dtype != tf.float32:
                        raise NotShareable(variable.path)
                    first = sum(each.shape.num_elements() for each in dynamic)
                    dynamic.append(operand)
                    has_dynamic = True
                    constant = slice(first, first + operand.shape.num_elements())
                moves.append(Move(operation, constant))
            self._moves.append(moves)
            own += [start] if has_dynamic else []
        reached = _reached_from([*dynamic, *results])
        for variable, start in zip(self._variables, starts, strict=True):
            if any(start is each for each in own) and start.name in reached:
                raise NotShareable(variable.path)
        self.num_operands = sum(each.shape.num_elements() for each in dynamic)
        flat = [tf.reshape(operand, [-1]) for operand in dynamic]
        return tf.concat(flat, 0) if flat else tf.zeros([0], tf.float32)

    def at(self, place: int, begun: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the batch at this place of a step begins with; not where only the batches know it."""
        found = []
        for moves, value in zip(self._moves, begun, strict=True):
            is_known = not any(isinstance(move.operand, slice) for move in moves)
            for _ in range(place if is_known else 0):
                for move in moves:
                    value = move.operation(value, move.operand)
            found.append(value)
        return found

    def after(self, begun: Sequence[np.ndarray], operands: np.ndarray) -> list[np.ndarray]:
        """What all batches of a step make of it, (batches, num_operands) in their order."""
        found = []
        for moves, value in zip(self._moves, begun, strict=True):
            for batch in operands:
                for move in moves:
                    operand = move.operand
                    if isinstance(operand, slice):
                        operand = batch[operand].reshape(value.shape)
                    value = move.operation(value, operand)
            found.append(value)
        return found


def _chain(end: tf.Tensor, start: tf.Tensor) -> list[tuple[np.ufunc, tf.Tensor]] | None:
    """The operations that lead from one tensor to the other, in their order, if these are all."""
    chain: list[tuple[np.ufunc, tf.Tensor]] = []
    while end.name != start.name:
        operation = end.op
        is_same = operation.type == "Cast" and operation.inputs[0].dtype == end.dtype
        if operation.type in _ALIKE or is_same:
            end = operation.inputs[0]
            continue
        if operation.type not in _OPERATIONS:
            return None
        left, right = operation.inputs
        if start.name in _reached_from([left]):
            end, operand = left, right
        elif operation.type != "Sub" and start.name in _reached_from([right]):
            end, operand = right, left
        else:
            return None
        if start.name in _reached_from([operand]):
            return None
        chain.append((_OPERATIONS[operation.type], operand))
    return chain[::-1]


def _reached_from(tensors: Iterable[tf.Tensor]) -> set[str]:
    """Names of all tensors that these are computed from, themselves included."""
    reached: set[str] = set()
    waiting = list(tensors)
    while waiting:
        tensor = waiting.pop()
        if tensor.name not in reached:
            reached.add(tensor.name)
            waiting += tensor.op.inputs
    return reached
