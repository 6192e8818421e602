"""The shapes of batches that checks look at."""

from __future__ import annotations

from shared.config.settings import Config
from shared.plan.index import Index
from shared.plan.plan_of_run import plan_of
from shared.task import BatchShape
from shared.task.registry import Task


def largest_shape(config: Config, index: Index) -> BatchShape:
    """Of the run's batches, the one with most bytes."""
    return max(plan_of(config, index).buckets, key=lambda shape: shape.nbytes)


def measured_shape(config: Config, index: Index) -> BatchShape:
    """As long as batches that steps are timed on; without such, as the largest."""
    task = Task.of(config.run.task)
    lengths = task.model_side().measured_at or largest_shape(config, index).lengths
    return BatchShape(config.data.batch_size, lengths, task.form())
