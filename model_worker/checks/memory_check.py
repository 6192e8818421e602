"""`python -m model_worker.checks.memory_check`: how much of a GPU's memory a run's steps will take.

Traces the step, on the CPU and without running it, for the run's largest batch at some numbers of rows.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from shared.config.settings import Config
from shared.plan.index import Index
from shared.plan.plan_of_run import plan_of
from shared.task import BatchShape
from shared.task.model_side import Facts
from shared.task.registry import Task
from shared.worker.check_lines import Predicted, check_main, tell
from shared.worker.start import fix_gpu, open_run, start_tensorflow, worker_parser

if TYPE_CHECKING:
    import tensorflow as tf

_ON_DEVICE_AHEAD = 2  # batches that are copied while one is trained on


def _work() -> None:
    parser = worker_parser("python -m model_worker.checks.memory_check", "--listen")
    parser.add_argument("--rows", type=int, nargs="+", required=True)
    parser.add_argument("--precision", required=True)
    flags = parser.parse_all(sys.argv[1:])
    run, config = open_run(flags)
    start_tensorflow("model", fix_gpu("model", flags, config), config)
    predict = _predictor(config, Index.load(run.index), flags.precision)
    for rows in flags.rows:
        tell(predict(rows))


def _predictor(config: Config, index: Index, precision: str) -> Callable[[int], Predicted]:
    from model_worker.checks.graph_memory import peak_bytes
    from model_worker.training.built_model import built_model
    from model_worker.training.precision import Precision
    from model_worker.training.step import StepSettings, TrainStep

    named = Task.of(config.run.task)
    task = named.model_side()(config)
    Precision(precision).settle()
    training = config.training
    settings = StepSettings(
        grad_accum=training.grad_accum,
        muon=training.optimizer == "muon",
        loss_scaling=Precision(precision).loss_scaling,
    )
    model = built_model(task, Facts(index, config))
    step = TrainStep(model, task, named.form().signature(), settings)

    def predict(rows: int) -> Predicted:
        data = dataclasses.replace(config.data, batch_size=rows)
        shape = _largest(dataclasses.replace(config, data=data), index)
        graphs = step.graphs_for(shape.arrays())
        peak = max(peak_bytes(graph) for graph in graphs)
        held = sum(_num_bytes(v) for v in {id(v): v for g in graphs for v in g.variables}.values())
        batches = (1 + _ON_DEVICE_AHEAD) * shape.nbytes
        return Predicted(rows, shape.lengths, round((peak + held + batches) / 2**20))

    return predict


def _largest(config: Config, index: Index) -> BatchShape:
    return max(plan_of(config, index).buckets, key=lambda shape: shape.nbytes)


def _num_bytes(variable: tf.Variable) -> int:
    return variable.dtype.size * int(np.prod(variable.shape))


if __name__ == "__main__":
    sys.exit(check_main(_work))
