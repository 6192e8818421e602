"""A machine with NVIDIA GPUs, as far as its driver says: everything above the driver is the real thing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("played_nvml.c")
CHECKOUT = SOURCE.parents[2]
GEFORCE = "RTX 4090,24576,512,8.9"
UUIDS = tuple(
    f"GPU-{i:08x}-1111-2222-3333-444444444444" for i in range(0x11111111, 0x88888889, 0x11111111)
)
SLICES = tuple(f"MIG-11111111-1111-2222-3333-44444444444{i}" for i in range(2))


def compiled(folder: Path) -> Path:
    """The library in a folder of its own; the test is left out where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("the played driver is C, and there is no compiler here (cc, gcc)")
    command = [compiler, "-O1", "-shared", "-fPIC", str(SOURCE), "-o", "libnvidia-ml.so.1"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


class Machine:
    """A machine whose driver's library lies in a folder, and says what `PLAYED_…` has it say."""

    def __init__(self, folder: Path):
        self._folder = folder

    def environment(self, gpus: str, visible: str | None = None, **played: str) -> dict[str, str]:
        """Of a process on it."""
        unset = ("CUDA_VISIBLE_DEVICES", "TANDEM_FAKE_GPUS")
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        environment |= {"LD_LIBRARY_PATH": str(self._folder), "PLAYED_GPUS": gpus}
        environment |= {f"PLAYED_{name.upper()}": value for name, value in played.items()}
        environment["PYTHONPATH"] = str(CHECKOUT)
        return environment if visible is None else {**environment, "CUDA_VISIBLE_DEVICES": visible}

    def launcher(self, *arguments: str, **machine: str) -> subprocess.CompletedProcess:
        """One command of the real program."""
        return subprocess.run(
            [sys.executable, str(CHECKOUT / "launcher.py"), *arguments],
            env=self.environment(**machine), capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def python(self, program: str, **machine: str):
        """What a program prints as JSON."""
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=self.environment(**machine), capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
