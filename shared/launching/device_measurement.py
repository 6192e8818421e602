"""Steps of every model size timed on a GPU, or on what stands for one: a child process for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from shared.config.settings import Config
from shared.devices.gpus import Gpu
from shared.run.directory import RunDirectory
from shared.worker.check_child import findings_of
from shared.worker.check_lines import Copied, Timed
from shared.worker.child_environment import python_command
from shared.worker.contract import status_in_words

ROWS_ON_GPU = 32
_ROWS_ON_CPU = 4  # it is there to try it, and can't be compared
_SIZES_ON_CPU = ("tiny", "small")
_SECONDS = 5.0
_DEADLINE_S = 900.0
_COMPILING_DEADLINE_S = 7200.0  # where the driver compiles every kernel first


@dataclasses.dataclass
class StepsTimed:
    """What was found, and of the sizes that could not be timed, why."""

    steps: list[Timed] = dataclasses.field(default_factory=list)
    copies: list[Copied] = dataclasses.field(default_factory=list)
    problems: dict[str, str] = dataclasses.field(default_factory=dict)


def measured_steps(
    config: Config,
    run: RunDirectory,
    gpu: Gpu | None,
    sizes: Sequence[str],
    say: Callable[[str], None],
) -> StepsTimed:
    """Each size in turn, on the GPU that would train."""
    is_gpu = gpu is not None and not gpu.fake
    found = StepsTimed()
    for size in sizes if is_gpu else [s for s in sizes if s in _SIZES_ON_CPU] or sizes[:1]:
        before = len(found.steps)
        _measure(found, config, run, gpu, size)
        if len(found.steps) > before:
            say(f"   {step_in_words(found.steps[-1])}")
        else:
            say(f"   {size or 'the model'}: {found.problems[size]}")
    return found


def _measure(
    found: StepsTimed, config: Config, run: RunDirectory, gpu: Gpu | None, size: str
) -> None:
    is_gpu = gpu is not None and not gpu.fake
    command = python_command("-m", "model_worker.checks.step_check", "--run", str(run.path))
    command += ["--task", config.run.task, "--size", size, "--seconds", str(_SECONDS)]
    command += ["--rows", str(ROWS_ON_GPU if is_gpu else _ROWS_ON_CPU)]
    if gpu is not None:
        command += ["--gpu", str(gpu.index)]
    if not found.copies:
        command.append("--copies")
    deadline_s = _COMPILING_DEADLINE_S if gpu and gpu.is_compiled_first else _DEADLINE_S
    log = run.log_of(f"step_check-{size or 'model'}")
    told = findings_of(command, "model", log, gpu, deadline_s)
    steps = [line for line in told.lines if isinstance(line, Timed)]
    found.steps += steps
    found.copies += [line for line in told.lines if isinstance(line, Copied)]
    if told.problem or not steps:
        found.problems[size] = told.problem or status_in_words(told.status)


def step_in_words(timed: Timed) -> str:
    """One size in a line."""
    busy = timed.counted.get("busy_share", timed.busy)
    words = [
        f"{timed.size or 'the model'}, {timed.rows} rows, {timed.precision}: "
        f"{timed.step_ms:.1f} ms a step ({timed.host_ms:.1f} ms of the host)"
    ]
    if busy is not None:
        words.append(f"device busy {busy:.0%}")
    if timed.counted:
        words.append(f"{timed.counted['kernels']:,.0f} kernels")
    memory = f"{timed.predicted_mb:,} MB predicted"
    if timed.allocated_mb is not None:
        memory = f"{timed.allocated_mb:,} MB, {memory}"
    return ", ".join([*words, memory])
