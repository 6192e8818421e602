"""Which GPUs there are and which the two sides get. Through NVML; TensorFlow is never needed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from shared.config.settings import DataConfig
from shared.devices.nvml import Driver, FoundGpu, driver_of, found_gpus, opened
from shared.devices.tensorflow_build import Build, Version, build_here
from shared.errors import GpuError, PlacementError

COMPILES_KERNELS_VARIABLE = "TANDEM_COMPILES_KERNELS"  # tells a worker that its GPU's driver does
COMPILING_DEADLINE_S = 4 * 3600.0  # for what is done first on such a GPU
_KERNEL_CACHE_BYTES = str(4 << 30)
_LEAST_FREE_MB = 512  # what CUDA and its libraries take before there is any tensor


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU as the user may name it; `visible_as` is what CUDA_VISIBLE_DEVICES must say."""

    index: int
    name: str
    visible_as: str
    memory_mb: int  # 0: nobody says
    physical_index: int
    fake: bool = False
    used_mb: int = 0  # before any process of ours is there
    capability: Version | None = None
    num_programs: int = 0  # that compute there, before any process of ours does
    is_one_of_many_kinds: bool = False  # of its machine; CUDA counts those in an order of its own
    problem: str = (
        ""  # why it can't be used; it is named all the same, so that others keep their index
    )

    @property
    def is_compiled_first(self) -> bool:
        """Whether TensorFlow's kernels have to be compiled before they run there the first time."""
        build = build_here()
        return bool(self.capability and build and build.is_compiled_first(self.capability))


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where the processes run. `data_gpus` is empty and `model_gpu` may be None without GPUs."""

    multi_gpu: bool
    data_gpus: tuple[Gpu, ...]
    model_gpu: Gpu | None
    further_model_gpus: tuple[Gpu | None, ...] = ()  # of the replicas after the first

    @property
    def model_gpus(self) -> tuple[Gpu | None, ...]:
        """One for each replica; None is the CPU."""
        return (self.model_gpu, *self.further_model_gpus)

    @property
    def mode(self) -> str:
        return "Multi-GPU Mode" if self.multi_gpu else "Single-GPU Buffered Mode"


def first_time_s(usual_s: float) -> float:
    """How long a worker may wait for what is done first on its GPU, and on the other's beside it."""
    is_compiled_first = os.environ.get(COMPILES_KERNELS_VARIABLE)
    return max(usual_s, COMPILING_DEADLINE_S) if is_compiled_first else usual_s


def list_gpus(num_fake: int, environ: Mapping[str, str] | None = None) -> list[Gpu]:
    """The GPUs that flags can name, after CUDA_VISIBLE_DEVICES where the user has set it.

    Raises:
        GpuError: there is a driver, and it can't be asked; or the variable can't be.
    """
    environ = os.environ if environ is None else environ
    if num_fake:
        return [Gpu(i, f"fake GPU {i}", str(i), 0, i, fake=True) for i in range(num_fake)]
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and hides_all(visible):
        return []  # the driver is not even asked: it may be what the user wants to do without
    with opened() as nvml:
        if nvml is None:
            return []
        found, driver, build = found_gpus(nvml), driver_of(nvml), build_here()
    chosen = found if visible is None else restrict(found, visible)
    many_kinds = len({gpu.name for gpu in found if gpu.name}) > 1
    return [
        dataclasses.replace(_as_named(index, gpu, driver, build), is_one_of_many_kinds=many_kinds)
        for index, gpu in enumerate(chosen)
    ]


def hides_all(visible: str) -> bool:
    """Whether this value of CUDA_VISIBLE_DEVICES is one of those that mean: no GPU."""
    return visible.strip() in ("", "-1", "NoDevFiles")


def _as_named(index: int, found: FoundGpu, driver: Driver, build: Build | None) -> Gpu:
    """A GPU under the index that flags have for it; one in MIG mode is its first slice, as in CUDA."""
    device = found.slices[0] if found.slices else found
    problem = found.problem
    if found.is_split and not found.slices:
        problem = "it is in MIG mode and has no slices ('nvidia-smi mig -h' says how to make one)"
    if not problem and build is not None:
        problem = build.problem(device.capability, driver)
    if not problem and device.memory_mb and device.memory_mb - device.used_mb < _LEAST_FREE_MB:
        problem = f"other programs hold {device.used_mb / 1024:.1f} of its {device.memory_mb / 1024:.1f} GB"
    return Gpu(
        index=index,
        name=device.name or f"GPU {found.index}",
        # By its index where it has no UUID: worker_environment makes CUDA count as nvidia-smi does.
        visible_as=device.uuid or str(found.index),
        memory_mb=device.memory_mb,
        physical_index=found.index,
        used_mb=device.used_mb,
        capability=device.capability,
        num_programs=device.num_programs,
        problem=problem,
    )


def restrict(found: list[FoundGpu], visible: str) -> list[FoundGpu]:
    """Those that a CUDA_VISIBLE_DEVICES of indices or UUIDs names, in its order.

    As in CUDA, the list ends at the first entry that names no GPU, and a UUID may be cut short where
    that leaves no doubt.

    Raises:
        GpuError: a GPU is named twice, or a UUID is cut too short.
    """
    chosen: list[FoundGpu] = []
    for entry in (part.strip() for part in visible.split(",")):
        match = _named_by(entry, found)
        if match is None:
            break
        if any((match.index, match.uuid) == (each.index, each.uuid) for each in chosen):
            name = match.uuid or f"GPU {match.index}"
            raise GpuError(
                f"CUDA_VISIBLE_DEVICES names {name} twice ({visible}). Name each GPU once."
            )
        chosen.append(match)
    return chosen


def _named_by(entry: str, found: list[FoundGpu]) -> FoundGpu | None:
    if not entry.startswith(("GPU-", "MIG-")):
        return next((gpu for gpu in found if str(gpu.index) == entry), None)
    known = [part for gpu in found for part in (gpu, *gpu.slices)]
    matches = [gpu for gpu in known if gpu.uuid.startswith(entry)]
    if len(matches) > 1:
        raise GpuError(
            f"CUDA_VISIBLE_DEVICES names {entry}, with which {len(matches)} GPUs begin. Give more of "
            "it; 'nvidia-smi -L' lists them."
        )
    if not matches and entry.startswith("MIG-GPU-"):  # how older drivers name a slice
        return FoundGpu(-1, "MIG slice", entry)
    # Whose UUID can't be read may be the one that is meant.
    return matches[0] if matches else next((g for g in found if g.problem and not g.uuid), None)


def choose_gpus(config: DataConfig, gpus: list[Gpu]) -> Placement:
    """Decide the mode and the GPUs of both sides.

    Raises:
        PlacementError: what was asked for can't be had. There is no silent fall-back.
    """
    if config.data_gpu is None and config.model_gpu is None:
        first, *further = _of_replicas(config.num_model_replicas, gpus)
        return Placement(
            multi_gpu=False, data_gpus=(), model_gpu=first, further_model_gpus=tuple(further)
        )
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
        *(("model_gpu", i) for i in config.model_gpus),
    ]:
        if not 0 <= index < len(gpus):
            raise PlacementError(f"Invalid {name}={index}, must be 0-{len(gpus) - 1}")
    if shared := [index for index in config.model_gpus if index in config.data_gpus]:
        other = next(g.index for g in gpus if g.index != shared[0])
        raise PlacementError(
            f"data_gpu and model_gpu are the same GPU ({shared[0]}). Choose two different "
            f"ones, such as --data-gpu {other} --model-gpu {shared[0]}."
        )
    for index in (*config.data_gpus, *config.model_gpus):
        check_usable(gpus[index])
    return Placement(
        multi_gpu=True,
        data_gpus=tuple(gpus[index] for index in config.data_gpus),
        model_gpu=gpus[config.model_gpus[0]],
        further_model_gpus=tuple(gpus[index] for index in config.model_gpus[1:]),
    )


def _of_replicas(count: int, gpus: list[Gpu]) -> list[Gpu | None]:
    """A GPU for each replica of the model where none was named; all are on the CPU without any.

    Raises:
        GpuError: there are GPUs, but too few that can be used.
    """
    first = first_usable(gpus)
    if first is None:
        return [None] * count
    usable = [gpu for gpu in gpus if not gpu.problem]
    if len(usable) < count:
        raise PlacementError(
            f"{count} model processes need a GPU each, but {len(usable)} can be used here. Give "
            f"--model-replicas {len(usable)}, or hide the GPUs to train on the CPU "
            "(CUDA_VISIBLE_DEVICES set to nothing)."
        )
    return list(usable[:count])


def first_usable(gpus: list[Gpu]) -> Gpu | None:
    """The GPU that is used where none was named; None on a machine without any.

    Raises:
        GpuError: there are GPUs, and none can be used: silently training on the CPU would be no help.
    """
    usable = next((gpu for gpu in gpus if not gpu.problem), None)
    if usable is None and gpus:
        check_usable(gpus[0])
    return usable


def check_usable(gpu: Gpu) -> None:
    """Raises GpuError, in the driver's words, where a GPU that is to be used can't be."""
    if gpu.problem:
        raise GpuError(
            f"GPU {gpu.index} can't be used: {gpu.problem}. Look at it with nvidia-smi, or leave it "
            "out with CUDA_VISIBLE_DEVICES (set to nothing, no GPU is used)."
        )


def worker_environment(gpu: Gpu | None) -> dict[str, str]:
    """The variables that fix a worker's GPU before TensorFlow is imported."""
    environment = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": gpu.visible_as if gpu else "",
    }
    if gpu and gpu.is_compiled_first:
        # All kernels of TensorFlow are more than the driver keeps by default; then it would compile
        # them at every start.
        environment["CUDA_CACHE_MAXSIZE"] = os.environ.get(
            "CUDA_CACHE_MAXSIZE", _KERNEL_CACHE_BYTES
        )
        environment[COMPILES_KERNELS_VARIABLE] = "1"
    return environment
