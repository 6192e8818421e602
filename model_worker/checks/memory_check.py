"""`python -m model_worker.checks.memory_check`: how much of a GPU's memory a run's steps will take.

Traces the step, on the CPU and without running it, for the run's largest batch at some numbers of rows.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence

from model_worker.checks.batch_shapes import largest_shape, measured_shape
from shared.config.settings import Config
from shared.plan.index import Index
from shared.task import BatchShape
from shared.task.model_side import Facts
from shared.task.registry import Task
from shared.worker.check_lines import Predicted
from shared.worker.checking import check_main, tell
from shared.worker.start import fix_gpu, open_run, start_tensorflow, worker_parser


def _work() -> None:
    parser = worker_parser("python -m model_worker.checks.memory_check", "--listen")
    parser.add_argument("--rows", type=int, nargs="+", required=True)
    parser.add_argument("--sizes", nargs="+", default=(), help="of the model [the run's own]")
    parser.add_argument("--precision", required=True)
    parser.add_argument(
        "--as-measured", action="store_true", help="of batches that steps are timed on"
    )
    flags = parser.parse_all(sys.argv[1:])
    run, config = open_run(flags)
    start_tensorflow("model", fix_gpu("model", flags, config), config)
    index = Index.load(run.index)
    for size, of_this_size in _sized(config, flags.sizes):
        shape_of = measured_shape if flags.as_measured else largest_shape
        predict = _predictor(of_this_size, index, flags.precision)
        for rows in flags.rows:
            data = dataclasses.replace(of_this_size.data, batch_size=rows)
            shape = shape_of(dataclasses.replace(of_this_size, data=data), index)
            tell(Predicted(size, rows, shape.lengths, predict(shape)))


def _sized(config: Config, sizes: Sequence[str]) -> list[tuple[str, Config]]:
    """The configuration for each size; once, and without a name, where they make no other model."""
    if getattr(config.task, "model_size", None) is None:  # a task with options of its own
        return [("", config)]
    side = Task.of(config.run.task).model_side()
    found: dict[str, tuple[str, Config]] = {}
    for size in sizes:
        task = dataclasses.replace(config.task, model_size=size)
        sized = dataclasses.replace(config, task=task)
        found.setdefault(str(side(sized).identity()), (size, sized))
    return list(found.values()) if len(found) > 1 else [("", config)]


def _predictor(config: Config, index: Index, precision: str) -> Callable[[BatchShape], int]:
    """-> the megabytes of a step on batches of a shape."""
    from model_worker.checks.step_memory import bytes_ahead, bytes_of_step
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

    return lambda shape: round((bytes_of_step(step, shape) + bytes_ahead(shape)) / 2**20)


if __name__ == "__main__":
    sys.exit(check_main(_work))
