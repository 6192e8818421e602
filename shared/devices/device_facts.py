"""What a worker sees of its device, told to the launcher, and the launcher's judgement of it."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass
from types import ModuleType

from shared.devices.gpus import Gpu


@dataclass(frozen=True)
class DeviceFacts:
    """What one process sees."""

    device_kind: str  # cpu, gpu or fake
    num_gpus: int
    visible: str  # CUDA_VISIBLE_DEVICES
    memory_growth: bool
    cores: tuple[int, ...]
    tensorflow: str


class Misplaced(enum.Enum):
    """In what way a process is not where it should be."""

    GPUS = "it sees others"
    MEMORY = "it would take all memory"
    CORES = "it shares cores"


@dataclass(frozen=True)
class Complaint:
    """What is wrong with where processes find themselves."""

    kind: Misplaced
    words: str


def device_facts(tf: ModuleType, device_kind: str) -> DeviceFacts:
    """What this process sees; `tf` is TensorFlow, already started on the device."""
    gpus = tf.config.get_visible_devices("GPU")
    growth = [tf.config.experimental.get_memory_growth(gpu) for gpu in gpus]
    return DeviceFacts(
        device_kind=device_kind,
        num_gpus=len(gpus),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        memory_growth=all(growth),
        cores=tuple(sorted(os.sched_getaffinity(0))),
        tensorflow=tf.__version__,
    )


def misplaced(role: str, gpu: Gpu, facts: DeviceFacts) -> Complaint | None:
    """What is wrong with where a process of this role finds itself."""
    words, kind = "", Misplaced.GPUS
    if gpu.fake:
        if facts.device_kind != "fake" or facts.num_gpus:
            words = f"the {role} process on {gpu.name} sees {facts.num_gpus} real GPUs"
    elif facts.num_gpus != 1:
        words = f"the {role} process sees {facts.num_gpus} GPUs instead of its own alone"
    elif facts.visible != gpu.visible_as:
        words = f"the {role} process sees {facts.visible!r}, not {gpu.visible_as!r}"
    elif not facts.memory_growth:
        kind = Misplaced.MEMORY
        words = f"the {role} process would take all of its GPU's memory at once"
    return Complaint(kind, words) if words else None


def not_apart(data: DeviceFacts, model: DeviceFacts) -> Complaint | None:
    """What the two processes share that they must not."""
    if data.device_kind == "fake":
        shared = sorted(set(data.cores) & set(model.cores))
        one_core = len(set(data.cores) | set(model.cores)) == 1
        if shared and not one_core:
            return Complaint(Misplaced.CORES, f"both processes run on cores {shared}")
    elif data.visible == model.visible:
        return Complaint(Misplaced.GPUS, f"both processes see {data.visible!r}")
    return None
