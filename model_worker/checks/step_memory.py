"""The memory that a step on batches of one shape takes of a device, from its traced graphs."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from model_worker.checks.graph_memory import peak_bytes
from model_worker.training.step import TrainStep
from shared.task import BatchShape

_ON_DEVICE_AHEAD = 2  # batches that are copied while one is trained on


def bytes_of_step(step: TrainStep, shape: BatchShape) -> int:
    """What it holds at once beside its variables, those, and its batch."""
    graphs = step.graphs_for(shape.arrays())
    variables = {id(v): v for graph in graphs for v in graph.variables}.values()
    return max(map(peak_bytes, graphs)) + sum(map(_num_bytes, variables)) + shape.nbytes


def bytes_ahead(shape: BatchShape) -> int:
    """The batches that a run has on the device beside the one it trains on."""
    return _ON_DEVICE_AHEAD * shape.nbytes


def _num_bytes(variable: tf.Variable) -> int:
    return variable.dtype.size * int(np.prod(variable.shape))
