"""What the installed TensorFlow was built for, and which GPUs that leaves out. Imports none of it."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.metadata
import importlib.util
from pathlib import Path

from shared.config.installation import BLACKWELL_LOCK, GPU_LOCK, pip_install
from shared.devices.nvml import Driver

Version = tuple[int, int]
_NONE = (0, 0)

# The oldest Linux drivers of a major version of CUDA, which serve every minor one of it.
_OLDEST_DRIVERS = {12: "525.60", 13: "580.65"}
# From this version on cuDNN leaves out GPUs below this capability (Pascal and Volta), and before that
# one it does not know those from that capability on (Blackwell).
_CUDNN_WITHOUT_OLD_GPUS, _OLDEST_OF_NEW_CUDNN = (9, 11), (7, 5)
_CUDNN_WITH_NEW_GPUS, _NEWEST_GPUS = (9, 7), (10, 0)


@dataclasses.dataclass(frozen=True)
class Build:
    """For GPUs: machine code of some capabilities, and text that a driver can compile for later ones."""

    cuda: str  # such as 12.5.1; empty: a build without GPUs
    cudnn: str
    machine_code: tuple[Version, ...] = ()
    text: tuple[Version, ...] = ()

    def has_machine_code(self, capability: Version) -> bool:
        """Whether kernels can run there as they are: same major capability, and none that is newer."""
        return any(c[0] == capability[0] and c <= capability for c in self.machine_code)

    def is_compiled_first(self, capability: Version) -> bool:
        """Whether the driver has to compile every kernel before it runs there the first time."""
        return not self.has_machine_code(capability) and any(c <= capability for c in self.text)

    def problem(self, capability: Version | None, driver: Driver) -> str:
        """Why TensorFlow can't use a GPU of this capability with this driver; empty if it can."""
        if not self.cuda:
            return "the TensorFlow that is installed here was built without GPU support"
        if driver.cuda is not None and driver.cuda[0] < int(self.cuda.split(".")[0]):
            oldest = _OLDEST_DRIVERS.get(int(self.cuda.split(".")[0]))
            needed = f"driver {oldest} or later" if oldest else "a newer driver"
            return (
                f"its driver {driver.version} serves CUDA {in_words(driver.cuda)}, and TensorFlow "
                f"was built for {self.cuda}, which needs {needed}"
            )
        if capability is None:
            return ""
        if not self.has_machine_code(capability) and not self.is_compiled_first(capability):
            oldest_known = min(self.machine_code + self.text, default=capability)
            return (
                f"its compute capability is {in_words(capability)}, and TensorFlow was built for "
                f"{in_words(oldest_known)} and later"
            )
        return _problem_with_cudnn(capability)


def _problem_with_cudnn(capability: Version) -> str:
    cudnn, lock = installed_cudnn(), ""
    if cudnn >= _CUDNN_WITHOUT_OLD_GPUS and capability < _OLDEST_OF_NEW_CUDNN:
        lock = GPU_LOCK
    if _NONE < cudnn < _CUDNN_WITH_NEW_GPUS and capability >= _NEWEST_GPUS:
        lock = BLACKWELL_LOCK
    if not lock:
        return ""
    return (
        f"its compute capability is {in_words(capability)}, which cuDNN {in_words(cudnn)} does not serve; "
        f"'{pip_install(lock)}' installs one that does"
    )


def in_words(version: Version) -> str:
    """As people write it: 8.9."""
    return f"{version[0]}.{version[1]}"


@functools.cache
def build_here() -> Build | None:
    """Of the TensorFlow that is installed; None where that can't be told.

    It is what tf.sysconfig.get_build_info() returns, out of the file that it comes from: the launcher
    imports no TensorFlow.
    """
    spec = importlib.util.find_spec("tensorflow")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "python" / "platform" / "build_info.py"
        try:
            return _parsed(path.read_text("utf-8"))
        except (OSError, ValueError, SyntaxError):
            continue
    return None


def _parsed(source: str) -> Build | None:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args:
            return _build_of(dict(ast.literal_eval(node.args[0])))
    return None


def _build_of(said: dict) -> Build:
    if not said.get("is_cuda_build"):
        return Build("", "")
    names = [str(name).split("_") for name in said.get("cuda_compute_capabilities", ())]
    # sm_89 is machine code of 8.9, compute_90 text for 9.0 and all that is later.
    versions = [(kind, (int(digits[:-1]), int(digits[-1]))) for kind, digits in names]
    return Build(
        cuda=str(said["cuda_version"]),
        cudnn=str(said["cudnn_version"]),
        machine_code=tuple(version for kind, version in versions if kind == "sm"),
        text=tuple(version for kind, version in versions if kind == "compute"),
    )


def installed_cudnn() -> Version:
    """Of the package that TensorFlow loads; _NONE where it comes from elsewhere."""
    try:
        numbers = importlib.metadata.version("nvidia-cudnn-cu12").split(".")
        return int(numbers[0]), int(numbers[1])
    except (importlib.metadata.PackageNotFoundError, ValueError, IndexError):
        return _NONE
