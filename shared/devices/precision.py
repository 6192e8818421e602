"""Which numbers a device computes fast in, and which it can't."""

from __future__ import annotations

from shared.devices.gpus import Gpu
from shared.devices.tensorflow_build import Version, in_words
from shared.errors import GpuError

AUTO = "auto"
_FROM = {"bfloat16": (8, 0), "float16": (7, 0)}  # compute capability with units for them


def chosen_by(capability: Version | None) -> str:
    """The fastest that keeps a model's quality: of a CPU, or an older GPU, float32."""
    if capability is None:
        return "float32"
    return next((name for name, least in _FROM.items() if capability >= least), "float32")


def check_precision(wanted: str, gpu: Gpu | None) -> None:
    """Raises GpuError where a GPU has no units for what was asked for, and would crawl."""
    if gpu is None or gpu.capability is None or gpu.capability >= _FROM.get(wanted, (0, 0)):
        return
    raise GpuError(
        f"--precision {wanted} needs a GPU of compute capability {in_words(_FROM[wanted])}; "
        f"{gpu.name} has {in_words(gpu.capability)}. Give --precision auto: there it is "
        f"{chosen_by(gpu.capability)}."
    )
