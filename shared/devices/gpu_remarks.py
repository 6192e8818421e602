"""What a person should know of the GPUs before a run begins on them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from shared.devices.gpus import Gpu, Placement
from shared.devices.tensorflow_build import in_words

_MUCH_USED = 0.25  # of the memory; a desktop's own windows take less


def remarks(gpus: Iterable[Gpu], placement: Placement, data_workers: int = 1) -> list[str]:
    """Which GPUs nobody can use, and what to expect of those that are used.

    `data_workers`: how many processes share each data GPU.
    """
    gpus = list(gpus)
    used = [*placement.data_gpus, *([placement.model_gpu] if placement.model_gpu else [])]
    left_out = [f"GPU {gpu.index} is left out: {gpu.problem}" for gpu in gpus if gpu.problem]
    order = [words for words in [_order_of(gpus, os.environ)] if words]
    shared = [_shared_by(gpu, data_workers) for gpu in placement.data_gpus if not gpu.fake]
    return [
        *left_out,
        *order,
        *(remark for gpu in used for remark in _of_one(gpu)),
        *(remark for remark in shared if remark),
    ]


def _order_of(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> str:
    """CUDA counts the fastest first, unless it is told otherwise, and so does who set the variable for CUDA."""
    visible = environ.get("CUDA_VISIBLE_DEVICES", "")
    is_counted = any(entry.strip().isdigit() for entry in visible.split(","))
    if not is_counted or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return ""
    if not any(gpu.is_one_of_many_kinds for gpu in gpus):
        return ""
    named = ", ".join(f"{gpu.physical_index} ({gpu.name})" for gpu in gpus)
    return (
        f"CUDA_VISIBLE_DEVICES={visible} is read as nvidia-smi counts: GPU {named}. Where CUDA counts in "
        "another order, name them by their UUID (nvidia-smi -L)"
    )


def _shared_by(gpu: Gpu, count: int) -> str:
    """CUDA has the processes of a GPU take turns, each with all of it, unless a server of its own mixes them."""
    folder = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    if count < 2 or (folder / "control").exists():
        return ""
    return (
        f"GPU {gpu.index}: {count} data processes take turns on it; where that is too slow, NVIDIA's MPS has "
        "them compute side by side (nvidia-cuda-mps-control -d, before the run)"
    )


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
