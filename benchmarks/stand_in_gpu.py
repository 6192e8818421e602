"""A GPU that computes nothing and writes down what it is asked, under TensorFlow's own GPU code.

`build` compiles the libraries of `stand_in/`, which TensorFlow takes for those of an NVIDIA GPU. A
process with the `environment` then builds its real kernels and XLA programs and launches them, and
`Recording` tells of each launch, copy and wait. Numbers computed are meaningless; what is asked is
exact; times of the device are modelled.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

SOURCES = Path(__file__).with_name("stand_in")
_LIBRARIES = (
    "cublas.so.12", "cublasLt.so.12", "cuda.so.1", "cudart.so.12", "cudnn.so.9", "cufft.so.11",
    "cupti.so.12", "curand.so.10", "cusolver.so.11", "cusparse.so.12", "nccl.so.2", "nvrtc.so.12",
    "nvidia-ml.so.1",
)  # fmt: skip


class NoCompiler(Exception):
    """There is none here, and the stand-in is C."""


def build(folder: Path) -> Path:
    """Compile the stand-in into a folder; a few seconds.

    Raises:
        NoCompiler: says so.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("the stand-in for a GPU is C, and there is no compiler here (cc, gcc)")
    for part in ("lib", "bin", "nvvm/libdevice"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    library = folder / "libstandin.so"
    sources = [str(SOURCES / f"{n}.c") for n in ("record", "driver", "runtime", "libraries")]
    command = [
        compiler,
        "-O1",
        "-shared",
        "-fPIC",
        *sources,
        "-o",
        str(library),
        "-lpthread",
        "-lm",
    ]
    subprocess.run(command, check=True)
    for name in _LIBRARIES:
        (folder / "lib" / f"lib{name}").symlink_to(library)
    shutil.copy(SOURCES / "ptxas", folder / "bin")
    shutil.copy(SOURCES / "libdevice.ll", folder / "nvvm" / "libdevice" / "libdevice.10.bc")
    return folder


def environment(folder: Path, **settings: object) -> dict[str, str]:
    """Of a process that has the GPU; `settings` are those of the stand-in (`mb=24000`)."""
    # Where nothing runs there is nothing to be optimised, and no way of running it that is faster.
    flags = [os.environ.get("XLA_FLAGS", ""), f"--xla_gpu_cuda_data_dir={folder}"]
    flags += ["--xla_gpu_autotune_level=0", "--xla_backend_optimization_level=0"]
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder / "lib"),
        "CUDA_VISIBLE_DEVICES": "0",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2"),
        "XLA_FLAGS": " ".join(flags).strip(),
        **{f"STAND_IN_{name.upper()}": str(value) for name, value in settings.items()},
    }


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a device was asked for while a recording went on."""

    launches: int
    library_calls: int
    graphs: int
    to_host: int
    to_device: int
    waits: int  # of the host for a stream, an event or the whole device
    busy_s: float  # of the device, modelled
    names: Counter[str]  # of all of it, those of kernels mangled

    @property
    def in_all(self) -> int:
        """Launches, library calls and graphs: what a step is counted in."""
        return self.launches + self.library_calls + self.graphs


class Recording:
    """What is asked between `with` and its end, of this process' stand-in."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        for name in ("stand_in_done_at", "stand_in_busy"):
            getattr(self._driver, name).restype = ctypes.c_double
        self._driver.stand_in_write.argtypes = [ctypes.c_char_p]

    def __enter__(self) -> Recording:
        self._driver.stand_in_record(1)
        return self

    def __exit__(self, *failure: object) -> None:
        self._driver.stand_in_record(0)

    def write(self, path: Path) -> None:
        """All of it in its order, in a table: seconds, thread, kind, bytes, seconds of the device, name."""
        self._driver.stand_in_write(str(path).encode())

    @property
    def asked(self) -> Asked:
        kinds: Counter[str] = Counter()
        names: Counter[str] = Counter()
        with tempfile.NamedTemporaryFile() as file:
            self.write(Path(file.name))
            for line in file.read().decode().splitlines():
                _, _, kind, _, _, name = line.split("\t", 5)
                kinds[kind] += 1
                names[f"{kind} {name}"] += 1
        launches, library_calls, graphs, to_host, to_device, waits = (kinds[k] for k in "KBG<>S")
        busy_s = self._driver.stand_in_busy()
        return Asked(launches, library_calls, graphs, to_host, to_device, waits, busy_s, names)

    @property
    def done_at_s(self) -> float:
        """When it will have done all, by `time.monotonic()`."""
        return self._driver.stand_in_done_at()
