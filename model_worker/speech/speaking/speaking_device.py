"""Where a run speaks: on its own GPU where that is there and idle, and it says where else."""

from __future__ import annotations

import os
from collections.abc import Callable

from shared.config.settings import Config
from shared.config.variables import FAKE_GPUS_VARIABLE
from shared.devices.gpus import Gpu, list_gpus, worker_environment
from shared.errors import GpuError


def fix_speaking_device(config: Config, say: Callable[[str], None]) -> str:
    """Settle this process's device before TensorFlow is imported; returns cpu or gpu.

    A GPU that trains has neither time nor memory for a second process: another is taken, or the CPU.
    """
    is_fake = config.run.fake_gpus or os.environ.get(FAKE_GPUS_VARIABLE)
    gpus = [] if is_fake else _usable_gpus(say)
    wanted = config.data.model_gpus[0] if config.data.model_gpus else 0
    idle = [gpu for gpu in gpus if not gpu.num_programs]
    gpu = next((gpu for gpu in idle if gpu.index == wanted), idle[0] if idle else None)
    where = f"GPU {gpu.index}" if gpu else "the CPU"
    own = next((gpu for gpu in gpus if gpu.index == wanted), None)
    if own is not None and own is not gpu:
        count = f"{own.num_programs} program" + "s" * (own.num_programs != 1)
        say(f"⚠️  {count} at work on GPU {own.index}: speaking on {where}")
    elif config.data.model_gpu is not None and not is_fake and own is None:
        say(f"⚠️  The run's GPU {wanted} is not here: speaking on {where}")
    os.environ.update(worker_environment(gpu))
    return "gpu" if gpu else "cpu"


def _usable_gpus(say: Callable[[str], None]) -> list[Gpu]:
    """Of this machine; speaking needs none, so a driver that fails is only worth a word."""
    try:
        gpus = list_gpus(0)
    except GpuError as error:
        say(f"⚠️  Speaking on the CPU: {error}")
        return []
    for gpu in gpus:
        if gpu.problem:
            say(f"⚠️  GPU {gpu.index} is left out: {gpu.problem}")
    return [gpu for gpu in gpus if not gpu.problem]
