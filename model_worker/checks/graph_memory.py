"""The most memory that one call of a traced graph holds at once, without running it.

Follows the graph in the order in which it was made: an operation's results are allocated when it runs,
and freed after the last one that reads them. Where an executor may run things in another order, as
TensorFlow's does, that is an estimate.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

# Their result is a view of what they read.
_VIEWS = {
    "Identity", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "ReadVariableOp", "PreventGradient",
    "IdentityN", "Snapshot", "EnsureShape",
}  # fmt: skip
# Their result takes the place of what they read, where nobody else reads that.
_IN_PLACE = {
    "Add", "AddV2", "AddN", "Sub", "Mul", "RealDiv", "Neg", "Exp", "Log", "Sqrt", "Rsqrt", "Square", "Relu",
    "ReluGrad", "Tanh", "TanhGrad", "Sigmoid", "SigmoidGrad", "Softplus", "Maximum", "Minimum", "SelectV2",
    "BiasAdd", "Elu", "EluGrad", "LeakyRelu", "LeakyReluGrad", "Selu", "Erf", "Pow", "DivNoNan", "Softmax",
}  # fmt: skip
_CALLS = ("f", "body", "then_branch", "else_branch", "cond")  # attributes that name a function


def peak_bytes(graph: Any) -> int:
    """Of a FuncGraph: temporary tensors, without its inputs and variables. Unknown lengths count as 1."""
    operations = _needed(graph)
    last_use: dict[int, int] = {}
    home: dict[str, int] = {}  # tensor -> its buffer
    size: dict[int, int] = {}
    for place, op in enumerate(operations):
        _place_results(op, home, size)
        for tensor in op.inputs:
            last_use[home[tensor.name]] = place
    end = len(operations)
    for tensor in graph.outputs:
        last_use[home[tensor.name]] = end
    return _simulated(graph, operations, home, size, last_use)


def _needed(graph: Any) -> list[Any]:
    """What runs at all: results that nobody needs are not computed."""
    needed, waiting = set(), [*(tensor.op for tensor in graph.outputs), *graph.control_outputs]
    while waiting:
        op = waiting.pop()
        if op not in needed:
            needed.add(op)
            waiting += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return [op for op in graph.get_operations() if op in needed]


def _place_results(op: Any, home: dict[str, int], size: dict[int, int]) -> None:
    for number, tensor in enumerate(op.outputs):
        if op.type in _VIEWS and number < len(op.inputs):
            home[tensor.name] = home[op.inputs[number].name]
            continue
        home[tensor.name] = len(size)
        given = op.type in ("Placeholder", "Const")  # held by the caller, or by the graph
        size[len(size)] = 0 if given else _num_bytes(tensor)


def _num_bytes(tensor: Any) -> int:
    if tensor.dtype in (tf.resource, tf.variant, tf.string) or tensor.shape.rank is None:
        return 0
    return tensor.dtype.size * math.prod(length or 1 for length in tensor.shape)


def _simulated(
    graph: Any,
    operations: list[Any],
    home: dict[str, int],
    size: dict[int, int],
    last_use: dict[int, int],
) -> int:
    dies_at: dict[int, list[int]] = {}
    for buffer, place in last_use.items():
        dies_at.setdefault(place, []).append(buffer)
    live = peak = 0
    held: dict[int, int] = {}
    for place, op in enumerate(operations):
        dying = [b for b in dies_at.get(place, ()) if held.get(b)]
        made = 0
        for tensor in op.outputs:
            buffer = home[tensor.name]
            if buffer in held or not size[buffer]:
                continue
            if op.type in _IN_PLACE:
                reused = next((b for b in dying if held[b] == size[buffer]), None)
                if reused is not None:
                    live -= held.pop(reused)
                    dying.remove(reused)
            held[buffer] = size[buffer]
            made += size[buffer]
        live += made
        peak = max(peak, live + max(0, _inside(graph, op) - made))
        unread = [home[tensor.name] for tensor in op.outputs if home[tensor.name] not in last_use]
        for buffer in (*dying, *unread):
            live -= held.pop(buffer, 0)
    return peak


def _inside(graph: Any, op: Any) -> int:
    """The most that the functions which an operation calls hold: one of them at a time."""
    peak = 0
    for name in _CALLS:
        try:
            called = op.get_attr(name)
        except ValueError:
            continue
        function = graph._get_function(called.name if hasattr(called, "name") else str(called))
        inner = getattr(function, "graph", None)
        if inner is not None:
            peak = max(peak, peak_bytes(inner))
    return peak
