"""What NVIDIA's management library (NVML) says of this machine, and what its refusals mean."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

from shared.errors import GpuError

_LIBRARY = "libnvidia-ml.so.1"
_TO_DO_WITHOUT = "To train without a GPU, set CUDA_VISIBLE_DEVICES to nothing."

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class FoundGpu:
    """One GPU of this machine, or a MIG slice of one, as the driver describes it."""

    index: int  # as nvidia-smi counts
    name: str = ""
    uuid: str = ""  # empty where the driver can't say
    memory_mb: int = 0  # 0: it has the machine's memory, or nobody says
    used_mb: int = 0  # of it, by whatever runs there
    capability: tuple[int, int] | None = None
    num_programs: int = 0  # that compute there, as far as the driver says
    is_split: bool = False  # in MIG mode: only its slices can compute
    slices: tuple[FoundGpu, ...] = ()
    problem: str = ""  # in the driver's words, where it can't be used


@dataclasses.dataclass(frozen=True)
class Driver:
    """The NVIDIA driver of this machine; the newest CUDA that it can serve, such as (12, 9)."""

    version: str
    cuda: tuple[int, int] | None


def words_of(nvml: ModuleType, error: Exception) -> str:
    """The driver's own words for a refusal, such as 'GPU is lost'; the bindings have others."""
    try:
        return _text(nvml.nvmlErrorString(getattr(error, "value", 0)))
    except nvml.NVMLError:
        return str(error) or type(error).__name__


@contextlib.contextmanager
def opened() -> Iterator[ModuleType | None]:
    """The bindings, ready to be asked; None on a machine without a driver, and so without a GPU.

    Raises:
        GpuError: there is a driver, and it can't be asked.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        _raise_if_damaged()
        yield None
        return
    except pynvml.NVMLError_DriverNotLoaded:
        yield None
        return
    except pynvml.NVMLError as error:
        raise GpuError(_refusal(pynvml, error)) from None
    try:
        yield pynvml
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _raise_if_damaged() -> None:
    """The bindings call every library that can't be loaded 'not found', also one that is there."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        if str(error).startswith(f"{_LIBRARY}: cannot open shared object file: No such file"):
            return
        raise GpuError(
            f"the NVIDIA driver's library can't be loaded ({error}). Install the driver again. "
            f"{_TO_DO_WITHOUT}"
        ) from None


def _refusal(pynvml: ModuleType, error: Exception) -> str:
    said = f"the NVIDIA driver can't be asked for its GPUs (it says: {words_of(pynvml, error)})"
    if isinstance(error, pynvml.NVMLError_LibRmVersionMismatch):
        return (
            f"{said}: it was updated while the old one was running. Restart the machine. "
            f"{_TO_DO_WITHOUT}"
        )
    if isinstance(error, pynvml.NVMLError_NoPermission):
        return (
            f"{said}. Give this user, or this container, the right to use /dev/nvidia*. "
            f"{_TO_DO_WITHOUT}"
        )
    return f"{said}. See what nvidia-smi says; a restart often helps. {_TO_DO_WITHOUT}"


def found_gpus(nvml: ModuleType) -> list[FoundGpu]:
    """Every GPU of the machine in nvidia-smi's order, those that can't be used with the reason."""
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        raise GpuError(_refusal(nvml, error)) from None
    return [_found(nvml, index) for index in range(count)]


def _found(nvml: ModuleType, index: int) -> FoundGpu:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        whole = _described(nvml, handle, index)
    except nvml.NVMLError as error:
        return FoundGpu(index, problem=words_of(nvml, error))
    if not _known(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle)[0], 0):
        return whole
    slices = []
    for number in range(_known(nvml, lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle), 0)):
        with contextlib.suppress(nvml.NVMLError):  # no slice has this number
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            described = _described(nvml, part, index)
            slices.append(dataclasses.replace(described, capability=whole.capability))
    return dataclasses.replace(whole, is_split=True, slices=tuple(slices))


def _described(nvml: ModuleType, handle: object, index: int) -> FoundGpu:
    """Raises NVMLError where even its name is refused: then nothing can be done with it."""
    name = _text(nvml.nvmlDeviceGetName(handle))
    memory = _known(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle), None)
    return FoundGpu(
        index=index,
        name=name,
        uuid=_known(nvml, lambda: _text(nvml.nvmlDeviceGetUUID(handle)), ""),
        memory_mb=memory.total >> 20 if memory else 0,
        used_mb=memory.used >> 20 if memory else 0,
        capability=_known(nvml, lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle), None),
        # By its number: the function without one wants the bindings to be as old as the driver.
        num_programs=_known(
            nvml, lambda: len(nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)), 0
        ),
    )


def _known(nvml: ModuleType, ask: Callable[[], T], otherwise: T) -> T:
    """What the driver answers; `otherwise` where this GPU has no such thing (Jetson, WSL)."""
    try:
        return ask()
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return otherwise


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def link_of(nvml: ModuleType, index: int) -> dict[str, int]:
    """What the driver says of a GPU's way to the host, its clock and its power; what it leaves out is not there."""
    asked: dict[str, Callable[[object], int]] = {
        "pcie_generation": lambda gpu: nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
        "pcie_lanes": lambda gpu: nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu),
        "sm_mhz": lambda gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM),
        "power_limit_w": lambda gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) // 1000,
    }
    found = {}
    for name, ask in asked.items():
        with contextlib.suppress(nvml.NVMLError):
            found[name] = int(ask(nvml.nvmlDeviceGetHandleByIndex(index)))
    return found


def driver_here() -> Driver | None:
    """The driver of this machine; None without one, or where it can't be asked."""
    try:
        with opened() as nvml:
            return None if nvml is None else driver_of(nvml)
    except GpuError:
        return None


def driver_of(nvml: ModuleType) -> Driver:
    """Its version, and the newest CUDA that it can serve."""
    version, cuda = "unknown", None
    with contextlib.suppress(nvml.NVMLError):
        version = _text(nvml.nvmlSystemGetDriverVersion())
    with contextlib.suppress(nvml.NVMLError):
        number = nvml.nvmlSystemGetCudaDriverVersion_v2()
        cuda = number // 1000, number % 1000 // 10
    return Driver(version, cuda)


class GpuMeter:
    """Asks the driver, again and again, about the one GPU that a process works on."""

    def __init__(self, visible_as: str):
        """`visible_as`: what CUDA_VISIBLE_DEVICES says, one UUID or index."""
        import pynvml

        self._nvml = pynvml
        self._visible_as = visible_as
        self._handle: Any = None  # None: the driver does not know it by this name

    def _ask(self, question: Callable[[Any], T]) -> T | None:
        try:
            if self._handle is None:
                self._handle = self._open()
            return question(self._handle)
        except self._nvml.NVMLError:
            return None

    def _open(self) -> object:
        self._nvml.nvmlInit()
        if self._visible_as.startswith(("GPU-", "MIG-")):
            return self._nvml.nvmlDeviceGetHandleByUUID(self._visible_as)
        return self._nvml.nvmlDeviceGetHandleByIndex(int(self._visible_as))

    def share(self) -> float | None:
        """How busy it is, from 0 to 1; None where nobody says (MIG, Jetson, WSL)."""
        return self._ask(lambda gpu: self._nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100)

    def memory_mb(self) -> int:
        """How much of its memory is used, by whomever; 0 where nobody says."""
        used = self._ask(lambda gpu: int(self._nvml.nvmlDeviceGetMemoryInfo(gpu).used))
        return (used or 0) >> 20

    def problem(self) -> str:
        """What the driver says is wrong with it, such as 'GPU is lost'; empty if nothing is.

        Nothing is known of a GPU without a driver (a fake one), nor by the name of an older one.
        """
        if self._visible_as.startswith("MIG-GPU-"):
            return ""
        try:
            self._nvml.nvmlDeviceGetName(self._open())
        except (self._nvml.NVMLError_LibraryNotFound, self._nvml.NVMLError_DriverNotLoaded):
            return ""
        except self._nvml.NVMLError as error:
            return words_of(self._nvml, error)
        return ""
