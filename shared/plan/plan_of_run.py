"""The plan of a run, built the same way on both sides from its configuration and index."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from shared.config.option import decided
from shared.config.settings import Config
from shared.plan.index import Index, root_folders
from shared.plan.plan import Plan
from shared.task import Indexed
from shared.task.registry import Task


def plan_of(config: Config, index: Index) -> Plan:
    """The run's plan; its stream ends where the budget in steps or epochs does."""
    training = config.training
    plan = Plan.from_index(
        index,
        Task.of(config.run.task).form(),
        batch_size=config.data.batch_size,
        seed=training.seed,
        max_buckets=config.data.max_buckets,
        static_shapes=config.data.enable_static_shapes,
        batches_per_step=training.grad_accum,
    )
    total = total_steps(config, plan.batches_per_epoch)
    return plan.with_layout(
        training.validate_every * training.grad_accum,
        None if total is None else total * training.grad_accum,
    )


def example_of_row(config: Config, index: Index) -> Callable[[int], Indexed]:
    """A function from a row of the index to the example that a task gets."""
    roots = root_folders(config.data.train_data or "", config.data.val_data)

    def example_of(row: int) -> Indexed:
        return Indexed(index, row, roots[index.root[row]] / index.paths[row])

    return example_of


def settings_fingerprint(config: Config, plan: Plan) -> str:
    """Of all settings that decide what is in a batch: both sides must have the same."""
    task = Task.of(config.run.task)
    facts = {
        "plan": plan.fingerprint(),
        "task": task.data_identity,
        "settings": decided(config.task, "index", "stream"),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def total_steps(config: Config, batches_per_epoch: int) -> int | None:
    """Optimizer steps in the budget, or None when only the clock ends the run."""
    training = config.training
    if training.max_steps:
        return training.max_steps
    if training.max_minutes:
        return None
    return max(1, training.epochs * batches_per_epoch // training.grad_accum)


def data_device_kind(config: Config) -> str:
    """What the run's data processes compute on: cpu, gpu or fake."""
    if config.data.data_gpu is None:
        return "cpu"
    return "fake" if config.run.fake_gpus else "gpu"


def num_data_workers(config: Config) -> int:
    """How many data processes the launcher starts for the run, spares not counted."""
    return config.run.data_workers * max(1, len(config.data.data_gpus))
