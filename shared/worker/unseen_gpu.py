"""Why TensorFlow sees no GPU where there is one: it knows, and keeps it to itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from shared.config.installation import GPU_LOCK, pip_install
from shared.devices.nvml import GpuMeter

_DEADLINE_S = 120.0
_LOOK = "import tensorflow; tensorflow.config.list_physical_devices('GPU')"
_MISSING = re.compile(r"Could not load dynamic library '([^']+)'; dlerror: ([^;]+)")
_CUDA_SAYS = re.compile(r"failed call to cuInit: (.+)")
_FROM_PYPI = f"Install its CUDA libraries: {pip_install(GPU_LOCK)}"


def why_no_gpu(visible_as: str) -> str:
    """In a sentence or two, with what to do: the driver's word, or the library that is missing.

    TensorFlow fixes how much it says when it is imported, so another process looks once more.
    """
    if problem := GpuMeter(visible_as).problem():
        return f"the driver says of it: {problem}. Look at it with nvidia-smi"
    try:
        said = subprocess.run(
            [sys.executable, "-P", "-c", _LOOK],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "dso_loader=1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_DEADLINE_S,
            check=False,
        ).stderr.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        said = ""
    return in_words(said)


def in_words(said: str) -> str:
    """What a line of TensorFlow's log means to a person."""
    missing = {library: reason.strip() for library, reason in _MISSING.findall(said)}
    # What the driver brings comes first: without it nothing else matters.
    for library in sorted(missing, key=lambda name: not name.startswith(("libcuda.", "libnvidia"))):
        reason = missing[library].removeprefix(f"{library}: ")
        if library.startswith(("libcuda.", "libnvidia")):
            return f"it needs the driver's {library} ({reason}). Install the NVIDIA driver again"
        return f"it needs {library} ({reason}). {_FROM_PYPI}"
    if found := _CUDA_SAYS.search(said):
        return (
            f"CUDA says: {found[1].strip()}. See whether nvidia-smi works, and restart the machine"
        )
    return f"it does not say why. {_FROM_PYPI}"
