"""The plan of a run, built the same way on both sides from its configuration and index."""

from __future__ import annotations

import hashlib

from shared.config.settings import Config
from shared.plan.index import Index
from shared.plan.plan import Plan


def plan_of(config: Config, index: Index) -> Plan:
    """The run's plan; its stream ends where the budget in steps or epochs does."""
    training = config.training
    plan = Plan.from_index(
        index,
        batch_size=config.data.batch_size,
        seed=training.seed,
        max_buckets=config.data.max_buckets,
        static_shapes=config.data.enable_static_shapes,
    )
    total = total_steps(config, plan.batches_per_epoch)
    return plan.with_layout(
        training.validate_every * training.grad_accum,
        None if total is None else total * training.grad_accum,
    )


def settings_fingerprint(config: Config, plan: Plan) -> str:
    """Of all settings that decide what is in a batch: both sides must have the same."""
    settings = f"{plan.fingerprint()} {config.data.normalise_loudness}"
    return hashlib.sha256(settings.encode()).hexdigest()


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
    gpus = config.data.data_gpu
    return config.run.data_workers * (len(gpus) if isinstance(gpus, tuple) else 1)
