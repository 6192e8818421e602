"""`--report FILE`: what a machine did, as its user can send it to others: no paths, no names, no data."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.config.settings import Config
from shared.devices.gpus import Gpu
from shared.devices.nvml import link_of, opened
from shared.diagnosis.prediction_errors import memory_error, model_errors
from shared.errors import GpuError, InputError
from shared.launching.device_measurement import StepsTimed, measured_steps
from shared.run.directory import RunDirectory
from shared.run.environment import gpu_software, versions_here
from shared.run.files import write_file
from shared.task.registry import Task
from shared.worker.check_lines import Timed
from shared.worker.memory_ahead import MemoryTable, sizes

_SCHEMA = 1
# Of one step on 32 rows of 640 frames and 96 symbols in float32, counted by the stand-in driver of
# benchmarks/gpu_launches.py, with its times for an RTX 4090; by size.
MODELLED: dict[str, dict[str, float]] = {}
_MODELLED_ROWS, _MODELLED_PRECISIONS = 32, ("float32", "tf32")


def add_report_flags(parser: argparse.ArgumentParser) -> None:
    """What `validate` and `bench` have in common."""
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="also time steps of each model size, and write a JSON file that can be sent to others",
    )
    parser.add_argument(
        "--gpu-memory",
        metavar="MB",
        help="predict what steps of each model size take of a GPU with so much memory [the model GPU's]",
    )


def check_report_path(path: str | None) -> None:
    """Raises InputError where no file can be written there."""
    if path is None:
        return
    if Path(path).is_dir():
        raise InputError(f"--report {path}: is a folder; name a file.")
    if not Path(path).absolute().parent.is_dir():
        raise InputError(f"--report {path}: there is no folder to write it to.")


def sizes_of(config: Config) -> tuple[str, ...]:
    """The sizes of the model to time: of a task of the user's own, the one that it is."""
    return sizes() if Task.of(config.run.task).is_built_in else ("",)


def measured_here(
    config: Config,
    run: RunDirectory,
    gpu: Gpu | None,
    sizes: Sequence[str],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The report's part that is measured: steps of each size, copies, and what was predicted wrongly."""
    say("📏 Timing steps of each model size for the report")
    found = measured_steps(config, run, gpu, sizes, say)
    wrong = prediction_errors(found.steps)
    for line in wrong:
        say(f"   Not as predicted: {line}")
    return {**_as_values(found), "not_as_predicted": wrong}


def _as_values(found: StepsTimed) -> dict[str, Any]:
    return {
        "steps": [dataclasses.asdict(timed) for timed in found.steps],
        "copies": [dataclasses.asdict(copied) for copied in found.copies],
        "not_timed": found.problems,
    }


def prediction_errors(steps: Sequence[Timed]) -> list[str]:
    """Memory and, on a GPU at the shape that was modelled, kernels and times."""
    wrong = []
    for timed in steps:
        if error := memory_error(timed.size, timed.predicted_mb, timed.allocated_mb):
            wrong.append(error)
        if timed.counted and is_modelled(timed):
            figures = {**timed.counted, "step_ms": timed.step_ms, "host_ms": timed.host_ms}
            wrong += model_errors(timed.size, figures, MODELLED.get(timed.size, {}))
    return wrong


def is_modelled(timed: Timed) -> bool:
    """Whether the stand-in's figures are of such steps."""
    return timed.rows == _MODELLED_ROWS and timed.precision in _MODELLED_PRECISIONS


def write_report(
    path: str, command: str, gpus: Sequence[Gpu], memory: MemoryTable | None, **parts: Any
) -> None:
    """Write everything as JSON that people can read, too."""
    found = {
        "schema": _SCHEMA,
        "made": time.strftime("%Y-%m-%d"),
        "command": command,
        "versions": versions_here() | (gpu_software() if any(not g.fake for g in gpus) else {}),
        "cores": len(os.sched_getaffinity(0)),
        "memory_megabytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "gpus": [_gpu(gpu) for gpu in gpus],
        "memory_predicted": None if memory is None else dataclasses.asdict(memory),
        "modelled": MODELLED,
        **parts,
    }
    text = json.dumps(_without_places(found), indent=1, ensure_ascii=False)
    write_file(path, text.encode() + b"\n")


def _gpu(gpu: Gpu) -> dict[str, Any]:
    """All but its UUID, which is one machine's own."""
    return {
        "index": gpu.index,
        "name": gpu.name,
        "is_fake": gpu.fake,
        "memory_mb": gpu.memory_mb,
        "used_mb": gpu.used_mb,
        "capability": gpu.capability,
        "is_mig_slice": gpu.visible_as.startswith("MIG-"),
        "is_compiled_first": gpu.is_compiled_first,
        "problem": gpu.problem,
        **_link(gpu),
    }


def _link(gpu: Gpu) -> Mapping[str, int]:
    if gpu.fake or gpu.physical_index < 0:
        return {}
    try:
        with opened() as nvml:
            return {} if nvml is None else link_of(nvml, gpu.physical_index)
    except GpuError:
        return {}


def _without_places(value: Any) -> Any:
    """The same, with neither the user's home nor the folder of the checks in any text."""
    if isinstance(value, dict):
        return {name: _without_places(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_places(each) for each in value]
    if isinstance(value, str):
        for place in (str(Path.cwd()), str(Path.home())):
            value = value.replace(place, "…") if len(place) > 1 else value
    return value
