"""A graph of TensorFlow to one of ONNX, and how far the two are apart."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
import tensorflow as tf
import tf2onnx

from model_worker.speech.onnx.graphs import Graph
from shared.errors import TandemError

OPSET = 15  # that of Piper's own voices: what speaks those, speaks ours
MOST_APART = 1e-3  # of full scale


def converted(graph: Graph) -> onnx.ModelProto:
    """The graph with its weights, as ONNX."""
    function = tf.function(graph.function, input_signature=graph.takes, autograph=False)
    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    # It counts on what newer versions of numpy no longer say so, and warns.
    with contextlib.suppress(AttributeError):
        tf2onnx.logging.set_level(logging.ERROR)
    model, _ = tf2onnx.convert.from_function(function, graph.takes, OPSET)
    foreign = {node.domain for node in model.graph.node} - {"", "ai.onnx"}
    if foreign:
        raise TandemError(f"{graph.name}: has operations that ONNX does not know: {foreign}.")
    return model


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """A session on one core."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def apart(
    graph: Graph, model: onnx.ModelProto, given: Mapping[str, np.ndarray]
) -> tuple[float, dict[str, np.ndarray]]:
    """The largest difference between TensorFlow's outputs and ONNX's, and the latter.

    Outputs of different shapes are infinitely far apart.
    """
    function = tf.function(graph.function, input_signature=graph.takes, autograph=False)
    tensors = [tf.constant(given[spec.name], spec.dtype) for spec in graph.takes]
    wanted = {name: value.numpy() for name, value in function(*tensors).items()}
    session = session_of(model)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(names, dict(given)), strict=True))
    return max(_difference(found[name], wanted[name]) for name in wanted), found


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    if ours.shape != theirs.shape:
        return float("inf")
    return float(np.abs(ours.astype(np.float64) - theirs).max(initial=0.0))
