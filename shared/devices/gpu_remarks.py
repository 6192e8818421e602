"""What a person should know of the GPUs before a run begins on them."""

from __future__ import annotations

from collections.abc import Iterable

from shared.devices.gpus import Gpu, Placement
from shared.devices.tensorflow_build import in_words

_MUCH_USED = 0.25  # of the memory; a desktop's own windows take less


def remarks(gpus: Iterable[Gpu], placement: Placement) -> list[str]:
    """Which GPUs nobody can use, and what to expect of those that are used."""
    used = [*placement.data_gpus, *([placement.model_gpu] if placement.model_gpu else [])]
    left_out = [f"GPU {gpu.index} is left out: {gpu.problem}" for gpu in gpus if gpu.problem]
    return [*left_out, *(remark for gpu in used for remark in _of_one(gpu))]


def _of_one(gpu: Gpu) -> list[str]:
    found = []
    if gpu.is_compiled_first and gpu.capability:
        found.append(
            f"GPU {gpu.index} ({gpu.name}, compute capability {in_words(gpu.capability)}) is newer "
            "than the machine code in this TensorFlow: its driver compiles every kernel at the first "
            "start, which can take half an hour or more, and keeps them in ~/.nv/ComputeCache"
        )
    if gpu.memory_mb and gpu.used_mb > _MUCH_USED * gpu.memory_mb:
        found.append(
            f"GPU {gpu.index}: other programs hold {gpu.used_mb / 1024:.1f} of its "
            f"{gpu.memory_mb / 1024:.1f} GB (nvidia-smi names them); this run has the rest"
        )
    return found
