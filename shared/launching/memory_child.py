"""How much memory a run's steps will take, found out in a child process; and the batch size that fits."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Sequence

from shared.config.option import AUTO
from shared.config.settings import Config, DataConfig
from shared.devices.gpus import Gpu, worker_environment
from shared.devices.precision import AUTO as AUTO_PRECISION
from shared.devices.precision import chosen_by
from shared.errors import TandemError
from shared.launching.places import child_environment
from shared.run.directory import RunDirectory
from shared.worker.check_lines import Failed, Predicted, decode
from shared.worker.contract import ROLE_VARIABLE

# For CUDA's context and libraries, and what cuDNN works in. Kept free, not measured.
LIBRARIES_MB = 1024
_TRIED = (8, 32)  # rows; between and beyond them memory grows evenly
_MOST_ROWS = 48  # more leave few steps to learn in
_MULTIPLE = 4
_DEADLINE_S = 600.0


def predicted(
    config: Config, run: RunDirectory, gpu: Gpu | None, rows: Sequence[int]
) -> list[Predicted]:
    """Of the run's largest batch, for each of these numbers of rows, with the precision of this GPU.

    Raises:
        TandemError: the steps could not be traced.
    """
    precision = config.model.precision
    if precision == AUTO_PRECISION:
        precision = chosen_by(gpu.capability if gpu else None)
    command = [sys.executable, "-m", "model_worker.checks.memory_check", "--run", str(run.path)]
    command += ["--task", config.run.task, "--precision", precision, "--rows", *map(str, rows)]
    with open(run.log_of("memory_check"), "wb") as errors:
        child = subprocess.run(
            command,
            env=child_environment({**worker_environment(None), ROLE_VARIABLE: "model"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=_DEADLINE_S,
            check=False,
        )
    lines = [line for line in map(decode, child.stdout.splitlines()) if line is not None]
    for line in lines:
        if isinstance(line, Failed):
            raise TandemError(line.problem)
    found = [line for line in lines if isinstance(line, Predicted)]
    if len(found) != len(rows):
        raise TandemError(f"the memory of a step can't be predicted; {errors.name} says why.")
    return found


def fitting_rows(few: Predicted, many: Predicted, free_mb: int) -> int:
    """The most rows, up to what is of use, whose step leaves the libraries their part."""
    per_row = max(1e-9, (many.megabytes - few.megabytes) / (many.rows - few.rows))
    fixed = few.megabytes - per_row * few.rows
    most = int((free_mb - LIBRARIES_MB - fixed) / per_row)
    return min(_MOST_ROWS, most // _MULTIPLE * _MULTIPLE if most >= _MULTIPLE else most)


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
    few, many = predicted(config, run, gpu, _TRIED)
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
