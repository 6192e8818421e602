"""The batch size that fits the model GPU, where a run is to find it out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from shared.config.option import AUTO
from shared.config.settings import Config, DataConfig
from shared.devices.gpus import Gpu
from shared.errors import TandemError
from shared.run.directory import RunDirectory
from shared.worker.memory_ahead import LIBRARIES_MB, TRIED_ROWS, fitting_rows, predicted


def with_batch_size(
    config: Config, run: RunDirectory, gpu: Gpu | None, say: Callable[[str], None]
) -> Config:
    """The configuration with a batch size, where that was to be found out.

    Raises:
        TandemError: not even one row fits, or it can't be told.
    """
    if config.data.batch_size is not AUTO:
        return config
    if gpu is None or not gpu.memory_mb:
        rows = DataConfig().batch_size
        say(f"📏 Batch size {rows}: there is no GPU whose memory it could be fitted to")
        return _with_rows(config, rows)
    say("📏 Finding the batch size that fits; the step is traced, which takes a few seconds")
    few, many = predicted(config, run, gpu, TRIED_ROWS)
    free_mb = config.data.model_gpu_memory or gpu.memory_mb - gpu.used_mb
    rows = fitting_rows(few, many, free_mb)
    if rows < 1:
        raise TandemError(
            f"{gpu.name} has {free_mb} MB free, and a step on {few.rows} rows would take about "
            f"{few.megabytes} MB and {LIBRARIES_MB} MB for CUDA's libraries. Give a smaller --model-size "
            "or a lower --max-seconds."
        )
    say(
        f"📏 Batch size {rows}: {many.rows} rows would take about {many.megabytes} MB, and {gpu.name} "
        f"has {free_mb} MB free"
    )
    return _with_rows(config, rows)


def _with_rows(config: Config, rows: int) -> Config:
    return dataclasses.replace(config, data=dataclasses.replace(config.data, batch_size=rows))
