"""What a graph would ask of a GPU and its host, found in TensorFlow's registry of kernels. No GPU needed.

TensorFlow's Linux wheel holds the kernels of GPUs wherever it runs. An operation that has none for its
types runs on the host, and one whose arguments must lie in the host's memory waits for them: either
way the host stops until the device has got there.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from functools import cache

import tensorflow as tf
from tensorflow.python.framework import function_def_to_graph, kernels, op_def_registry

# They run nowhere, or what they call is looked at on its own.
_NOWHERE = {"Placeholder", "NoOp", "Const", "_Arg", "_Retval"}
_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
_BRANCHES = {"If", "StatelessIf", "Case", "StatelessCase"}
_LOOPS = {"While", "StatelessWhile"}
_ALWAYS_ON_HOST = (tf.resource, tf.variant, tf.string)


@dataclasses.dataclass(frozen=True)
class Body:
    """The operations of a graph, or of a function that it calls."""

    graph: tf.Graph
    in_loop: bool
    is_compiled: bool  # by XLA, which has its own kernels for everything
    is_outermost: bool = False


def bodies(concrete) -> Iterator[Body]:
    """A traced function's graph, and once each those of all functions that it calls."""
    library = {f.signature.name: f for f in concrete.graph.as_graph_def().library.function}
    waiting = [Body(concrete.graph, False, _must_compile(concrete.function_def), True)]
    seen = set()
    while waiting:
        body = waiting.pop()
        yield body
        for op in body.graph.get_operations():
            for name in _called(op):
                if name not in library or name in seen:
                    continue
                seen.add(name)
                definition = library[name]
                graph = function_def_to_graph.function_def_to_graph(definition)
                in_loop = body.in_loop or op.type in _LOOPS
                waiting.append(Body(graph, in_loop, body.is_compiled or _must_compile(definition)))


def without_kernel(concrete) -> set[str]:
    """Operations, with their types, that no GPU has a kernel for."""
    found = set()
    for body in bodies(concrete):
        for op in body.graph.get_operations():
            if not body.is_compiled and _runs(op) and _kernel_of(op) is None:
                types = ", ".join(tensor.dtype.name for tensor in op.inputs)
                found.add(f"{op.type}({types})")
    return found


def trips(concrete) -> Counter[str]:
    """Where a value on the device is wanted in the host's memory: `producer → consumer, type`.

    Of the arguments, whole numbers without a shape are the host's, as Python gives them.
    """
    found: Counter[str] = Counter()
    for body in bodies(concrete):
        if body.is_compiled:
            continue
        for op in body.graph.get_operations():
            for tensor, wants_host in _inputs(op):
                if wants_host and _is_on_device(tensor, body.is_outermost):
                    place = " in a loop" if body.in_loop else ""
                    found[f"{tensor.op.type} → {op.type}, {tensor.dtype.name}{place}"] += 1
    return found


def loops(concrete) -> list[str]:
    """Loops that the host turns, or whose compiled condition holds more than a count.

    XLA finds the number of turns of `i < n` alone; with any `and` the host asks after every turn.
    """
    found = []
    for body in bodies(concrete):
        for op in body.graph.get_operations():
            if op.type not in _LOOPS:
                continue
            if not body.is_compiled:
                found.append(f"{op.name}: turned by the host")
            elif {each.type for each in _function(concrete, op, "cond").get_operations()} & {
                "LogicalAnd",
                "LogicalOr",
            }:
                found.append(f"{op.name}: a condition beside the count")
    return found


def _function(concrete, op: tf.Operation, attribute: str) -> tf.Graph:
    name = op.get_attr(attribute).name
    library = concrete.graph.as_graph_def().library.function
    return function_def_to_graph.function_def_to_graph(
        next(f for f in library if f.signature.name == name)
    )


def _must_compile(definition) -> bool:
    return definition.attr["_XlaMustCompile"].b


def _called(op: tf.Operation) -> Iterator[str]:
    for name, value in op.node_def.attr.items():
        if name == "_gradient_op_type":
            continue
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)


def _runs(op: tf.Operation) -> bool:
    if op.type in _NOWHERE | _CALLS | _BRANCHES | _LOOPS:
        return False
    return op_def_registry.get(op.type) is not None  # else a function, called by its name


@cache
def _registered(op_type: str) -> list:
    found = kernels.get_registered_kernels_for_op(op_type).kernel
    return sorted(
        (
            kernel
            for kernel in found
            if kernel.device_type in ("GPU", "DEFAULT") and not kernel.label
        ),
        key=lambda kernel: kernel.device_type != "GPU",
    )


def _kernel_of(op: tf.Operation):
    for kernel in _registered(op.type):
        if all(_fits(op, constraint) for constraint in kernel.constraint):
            return kernel
    return None


def _fits(op: tf.Operation, constraint) -> bool:
    value = op.get_attr(constraint.name)
    types = value if isinstance(value, list) else [value]
    allowed = constraint.allowed_values.list.type
    return all(tf.dtypes.as_dtype(each).as_datatype_enum in allowed for each in types)


def _names(op: tf.Operation, arguments) -> list[str]:
    """The name of the argument that each of an operation's tensors is one of."""
    names: list[str] = []
    for argument in arguments:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        names += [argument.name] * count
    return names


def _inputs(op: tf.Operation) -> Iterator[tuple[tf.Tensor, bool]]:
    """Each input, and whether it must be in the host's memory."""
    if op.type in _BRANCHES:
        yield op.inputs[0], True
    if not _runs(op):
        return
    kernel = _kernel_of(op)
    for tensor, name in zip(op.inputs, _names(op, op.op_def.input_arg), strict=True):
        yield tensor, kernel is None or name in kernel.host_memory_arg or _is_put_on_host(op)


def _is_put_on_host(op: tf.Operation) -> bool:
    return "CPU" in op.device


def _is_on_device(tensor: tf.Tensor, is_outermost: bool) -> bool:
    op = tensor.op
    if tensor.dtype in _ALWAYS_ON_HOST or op.type == "Const" or _is_put_on_host(op):
        return False
    if op.type == "Placeholder":
        is_hosts = tensor.dtype == tf.int32 and tensor.shape.rank == 0
        return is_outermost and not is_hosts
    if not _runs(op):
        return True  # what a function made
    kernel = _kernel_of(op)
    names = _names(op, op.op_def.output_arg)
    return kernel is not None and names[tensor.value_index] not in kernel.host_memory_arg
