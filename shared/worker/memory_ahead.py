"""How much of a GPU's memory steps will take, found out in a child process before any is run.

The child traces the step on the CPU; memory grows evenly with the rows, so two numbers of them are enough.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from shared.config.option import rules_of
from shared.config.settings import Config, TaskConfig
from shared.devices.gpus import Gpu
from shared.devices.precision import AUTO, chosen_by
from shared.errors import TandemError
from shared.run.directory import RunDirectory
from shared.worker.check_child import findings_of
from shared.worker.check_lines import Predicted
from shared.worker.child_environment import python_command

# For CUDA's context and libraries, and what cuDNN works in. Kept free, not measured.
LIBRARIES_MB = 1024
TRIED_ROWS = (8, 32)
_SHOWN_ROWS = (8, 16, 32, 48)
_MOST_ROWS = 48  # more leave few steps to learn in
_MULTIPLE = 4
_DEADLINE_S = 900.0


@dataclasses.dataclass(frozen=True)
class Fit:
    """What steps of one size of the model take, by their rows, and how many rows fit."""

    size: str  # empty: the task comes in one
    megabytes: dict[str, int]  # by rows
    most_rows: int | None  # None: nobody named a memory


@dataclasses.dataclass(frozen=True)
class MemoryTable:
    """The prediction for every size of a model, on batches of the longest examples."""

    lengths: dict[str, int]
    precision: str
    free_mb: int  # 0: nobody named a memory
    fits: tuple[Fit, ...]


def sizes() -> tuple[str, ...]:
    """Every size that a model comes in."""
    return rules_of(TaskConfig)["model_size"].choices


def predicted(
    config: Config,
    run: RunDirectory,
    gpu: Gpu | None,
    rows: Sequence[int],
    named: Sequence[str] = (),
    as_measured: bool = False,
) -> list[Predicted]:
    """Of the run's largest batch, for each of these numbers of rows, with the precision of this GPU.

    `named`: sizes of the model; by default the configuration's own. `as_measured`: of a batch as long
    as those that steps are timed on, where the task says so.

    Raises:
        TandemError: the steps could not be traced.
    """
    command = python_command("-m", "model_worker.checks.memory_check", "--run", str(run.path))
    command += ["--task", config.run.task, "--precision", precision_on(config, gpu)]
    command += ["--rows", *map(str, rows)]
    if named:
        command += ["--sizes", *named]
    if as_measured:
        command.append("--as-measured")
    log = run.log_of("memory_check")
    lines = findings_of(command, "model", log, deadline_s=_DEADLINE_S).sound()
    found = [line for line in lines if isinstance(line, Predicted)]
    if len(found) < len(rows) or len(found) % len(rows):
        raise TandemError(f"the memory of a step can't be predicted; {log} says why.")
    return found


def precision_on(config: Config, gpu: Gpu | None) -> str:
    """The numbers that a run computes in there."""
    wanted = config.model.precision
    return chosen_by(gpu.capability if gpu else None) if wanted == AUTO else wanted


def memory_table(
    config: Config,
    run: RunDirectory,
    gpu: Gpu | None,
    free_mb: int,
    lengths: Sequence[str],
    as_measured: bool = False,
) -> MemoryTable:
    """Predicted for each size of the model; `lengths` names those of the task's batches.

    Raises:
        TandemError: the steps could not be traced.
    """
    found = predicted(config, run, gpu, TRIED_ROWS, sizes(), as_measured)
    return table_of(found, precision_on(config, gpu), free_mb, lengths)


def table_of(
    found: Sequence[Predicted], precision: str, free_mb: int, lengths: Sequence[str]
) -> MemoryTable:
    """What was predicted of few and of many rows, for all numbers of them that people choose."""
    fits = []
    for few, many in zip(found[::2], found[1::2], strict=True):
        fixed, per_row = _line_through(few, many)
        megabytes = {str(rows): round(fixed + per_row * rows) for rows in _SHOWN_ROWS}
        most = max(0, fitting_rows(few, many, free_mb)) if free_mb else None
        fits.append(Fit(few.size, megabytes, most))
    plain = (name.removeprefix("num_") for name in lengths)
    named = dict(zip(plain, found[0].lengths, strict=True))
    return MemoryTable(named, precision, free_mb, tuple(fits))


def fitting_rows(few: Predicted, many: Predicted, free_mb: int) -> int:
    """The most rows, up to what is of use, whose step leaves the libraries their part."""
    fixed, per_row = _line_through(few, many)
    most = int((free_mb - LIBRARIES_MB - fixed) / per_row)
    return min(_MOST_ROWS, most // _MULTIPLE * _MULTIPLE if most >= _MULTIPLE else most)


def _line_through(few: Predicted, many: Predicted) -> tuple[float, float]:
    per_row = max(1e-9, (many.megabytes - few.megabytes) / (many.rows - few.rows))
    return few.megabytes - per_row * few.rows, per_row
