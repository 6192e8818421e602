"""Which GPUs there are and which the two sides get. Through NVML; TensorFlow is never needed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from types import ModuleType

from shared.config.settings import DataConfig
from shared.errors import GpuError, PlacementError


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU as the user may name it; `visible_as` is what CUDA_VISIBLE_DEVICES must say."""

    index: int
    name: str
    visible_as: str
    memory_mb: int
    physical_index: int
    fake: bool = False


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where the processes run. `data_gpus` is empty and `model_gpu` may be None without GPUs."""

    multi_gpu: bool
    data_gpus: tuple[Gpu, ...]
    model_gpu: Gpu | None

    @property
    def mode(self) -> str:
        return "Multi-GPU Mode" if self.multi_gpu else "Single-GPU Buffered Mode"


def list_gpus(num_fake: int, environ: Mapping[str, str] | None = None) -> list[Gpu]:
    """The GPUs that flags can name, after CUDA_VISIBLE_DEVICES where the user has set it."""
    environ = os.environ if environ is None else environ
    if num_fake:
        return [Gpu(i, f"fake GPU {i}", str(i), 0, i, fake=True) for i in range(num_fake)]
    return restrict(_nvml_gpus(), environ.get("CUDA_VISIBLE_DEVICES"))


def _nvml_gpus() -> list[Gpu]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []  # no driver, so no GPU
    try:
        found = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                found.append(_described(pynvml, index))
            except pynvml.NVMLError as error:
                raise GpuError(
                    f"the driver can't say what GPU {index} is ({error}). Look at it with "
                    "nvidia-smi, or leave it out with CUDA_VISIBLE_DEVICES."
                ) from None
        return found
    finally:
        pynvml.nvmlShutdown()


def _described(pynvml: ModuleType, index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    try:
        memory_mb = pynvml.nvmlDeviceGetMemoryInfo(handle).total >> 20
    except pynvml.NVMLError_NotSupported:
        memory_mb = 0  # a GPU that has the machine's memory
    uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
    return Gpu(index, _text(pynvml.nvmlDeviceGetName(handle)), uuid, memory_mb, index)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def driver_version() -> str:
    """Of the NVIDIA driver; empty without one."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ""
    try:
        version = pynvml.nvmlSystemGetDriverVersion()
        return _text(version)
    except pynvml.NVMLError:
        return "unknown"
    finally:
        pynvml.nvmlShutdown()


def restrict(gpus: list[Gpu], visible: str | None) -> list[Gpu]:
    """Renumber the GPUs as CUDA does under a CUDA_VISIBLE_DEVICES of indices or UUIDs.

    As in CUDA, the list ends at the first entry that names no GPU.
    """
    if visible is None:
        return gpus
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in visible.split(",")):
        match: Gpu | None
        if entry.startswith("MIG-"):
            match = Gpu(0, "MIG slice", entry, 0, -1)
        elif entry.startswith("GPU-"):
            match = next((g for g in gpus if g.visible_as.startswith(entry)), None)
        else:
            match = next((g for g in gpus if str(g.physical_index) == entry), None)
        if match is None:
            break
        if any(match.visible_as == each.visible_as for each in chosen):
            raise GpuError(
                f"CUDA_VISIBLE_DEVICES names {match.visible_as} twice ({visible}). Name each GPU once."
            )
        chosen.append(dataclasses.replace(match, index=len(chosen)))
    return chosen


def place(config: DataConfig, gpus: list[Gpu]) -> Placement:
    """Decide the mode and the GPUs of both sides.

    Raises:
        PlacementError: what was asked for can't be had. There is no silent fall-back.
    """
    if config.data_gpu is None and config.model_gpu is None:
        return Placement(multi_gpu=False, data_gpus=(), model_gpu=gpus[0] if gpus else None)
    if config.model_gpu is None:
        raise PlacementError(
            "--data-gpu was given without --model-gpu. Give both, such as --data-gpu 0 "
            "--model-gpu 1, or neither for single-GPU mode."
        )
    if config.data_gpu is None:
        raise PlacementError(
            "--model-gpu was given without --data-gpu. Give both, such as --data-gpu 0 "
            "--model-gpu 1, or neither for single-GPU mode."
        )
    if len(gpus) < 2:
        raise PlacementError(
            f"Multi-GPU requires at least 2 GPUs, found {len(gpus)}\n   Leave out --data-gpu and "
            "--model-gpu to train with what there is, or try --fake-gpus 2."
        )
    for name, index in [
        *(("data_gpu", i) for i in config.data_gpus),
        ("model_gpu", config.model_gpu),
    ]:
        if not 0 <= index < len(gpus):
            raise PlacementError(f"Invalid {name}={index}, must be 0-{len(gpus) - 1}")
    if config.model_gpu in config.data_gpus:
        other = next(g.index for g in gpus if g.index != config.model_gpu)
        raise PlacementError(
            f"data_gpu and model_gpu are the same GPU ({config.model_gpu}). Choose two different "
            f"ones, such as --data-gpu {other} --model-gpu {config.model_gpu}."
        )
    return Placement(
        multi_gpu=True,
        data_gpus=tuple(gpus[index] for index in config.data_gpus),
        model_gpu=gpus[config.model_gpu],
    )


def gpu_share_of(visible_as: str) -> Callable[[], float]:
    """A function that asks NVML how busy a GPU is, from 0 to 1; 0 where it can't tell (MIG)."""
    pynvml, handle = _nvml_handle(visible_as)

    def share() -> float:
        try:
            return pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        except pynvml.NVMLError:
            return 0.0

    return share


def gpu_memory_of(visible_as: str) -> Callable[[], int]:
    """A function that asks NVML how much of a GPU's memory is used, in MB."""
    pynvml, handle = _nvml_handle(visible_as)

    def memory_mb() -> int:
        try:
            return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used) >> 20
        except pynvml.NVMLError:
            return 0

    return memory_mb


def _nvml_handle(visible_as: str) -> tuple[ModuleType, object]:
    import pynvml

    pynvml.nvmlInit()
    if visible_as.startswith(("GPU-", "MIG-")):
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(visible_as)
    return pynvml, pynvml.nvmlDeviceGetHandleByIndex(int(visible_as))


def worker_environment(gpu: Gpu | None) -> dict[str, str]:
    """The variables that fix a worker's GPU before TensorFlow is imported."""
    environment = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": gpu.visible_as if gpu else "",
    }
    return environment
