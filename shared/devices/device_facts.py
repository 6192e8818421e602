"""What a worker sees of its device, told to the launcher, and the launcher's judgement of it."""

from __future__ import annotations

import os

from shared.devices.gpus import Gpu


def device_facts(tf, device_kind: str) -> dict:
    """What this process sees; `tf` is TensorFlow, already started on the device."""
    gpus = tf.config.get_visible_devices("GPU")
    growth = [tf.config.experimental.get_memory_growth(gpu) for gpu in gpus]
    return {
        "device_kind": device_kind,
        "num_gpus": len(gpus),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "memory_growth": all(growth),
        "cores": sorted(os.sched_getaffinity(0)),
        "tensorflow": tf.__version__,
    }


def misplaced(role: str, gpu: Gpu, facts: dict) -> str:
    """What is wrong with where a process of this role finds itself; empty if nothing is."""
    if gpu.fake:
        if facts["device_kind"] != "fake" or facts["num_gpus"]:
            return f"the {role} process on {gpu.name} sees {facts['num_gpus']} real GPUs"
        return ""
    if facts["num_gpus"] != 1:
        return f"the {role} process sees {facts['num_gpus']} GPUs instead of its own alone"
    if facts["visible"] != gpu.visible_as:
        return f"the {role} process sees {facts['visible']!r}, not {gpu.visible_as!r}"
    if not facts["memory_growth"]:
        return f"the {role} process would take all of its GPU's memory at once"
    return ""


def not_apart(data: dict, model: dict) -> str:
    """What the two processes share that they must not; empty if nothing."""
    if data["device_kind"] == "fake":
        shared = sorted(set(data["cores"]) & set(model["cores"]))
        one_core = len(set(data["cores"]) | set(model["cores"])) == 1
        return f"both processes run on cores {shared}" if shared and not one_core else ""
    return f"both processes see {data['visible']!r}" if data["visible"] == model["visible"] else ""
