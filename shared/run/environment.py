"""What a run runs on: versions and devices, written down when it starts and shown in its report."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re

from shared.devices.gpus import Gpu, Placement
from shared.devices.nvml import driver_here
from shared.devices.tensorflow_build import build_here, in_words
from shared.run.directory import RunDirectory
from shared.run.files import write_file

_CUDA_PACKAGES = {"CUDA runtime": "nvidia-cuda-runtime-cu12", "cuDNN": "nvidia-cudnn-cu12"}
_OWN_PACKAGE = "tandem-tts"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def versions_here() -> dict[str, str]:
    """Of Python, the system and the packages that this one needs, without importing them."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in (_OWN_PACKAGE, *_needed_packages()):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _needed_packages() -> list[str]:
    """Their names, as they were told when this one was installed; those of its extras are not."""
    try:
        required = importlib.metadata.requires(_OWN_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    names = (_NAME.match(each) for each in required if "extra ==" not in each)
    return [name[0] for name in names if name]


def write_environment(run: RunDirectory, placement: Placement) -> None:
    """Write what the run is about to run on into its directory."""
    gpus = [*placement.data_gpus, *filter(None, placement.model_gpus)]
    versions = versions_here()
    if any(not gpu.fake for gpu in gpus):
        versions |= gpu_software()
    environment = {
        "versions": versions,
        "devices": {
            "data": [_device(gpu) for gpu in placement.data_gpus] or ["CPU"],
            "model": [_device(gpu) for gpu in placement.model_gpus],
        },
    }
    write_file(run.environment, json.dumps(environment, indent=2).encode() + b"\n")


def gpu_software() -> dict[str, str]:
    """The driver, and the CUDA libraries by what was installed and what TensorFlow was built for."""
    found = {}
    if driver := driver_here():
        serves = f" (serves CUDA {in_words(driver.cuda)})" if driver.cuda else ""
        found["NVIDIA driver"] = driver.version + serves
    for name, package in _CUDA_PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not from a Python package"
    if build := build_here():
        found["TensorFlow built for"] = f"CUDA {build.cuda}, cuDNN {build.cudnn}"
    return found


def _device(gpu: Gpu | None) -> str:
    if gpu is None:
        return "CPU"
    memory = f", {gpu.memory_mb / 1024:.0f} GB" if gpu.memory_mb else ""
    capability = f", compute capability {in_words(gpu.capability)}" if gpu.capability else ""
    return f"GPU {gpu.index}: {gpu.name}{memory}{capability}"


def read_environment(run: RunDirectory) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Versions and, by role, devices; nothing where they were not written down."""
    try:
        found = json.loads(run.environment.read_text("utf-8"))
        versions = {str(name): str(version) for name, version in found["versions"].items()}
        devices = {str(role): [str(each) for each in names]
                   for role, names in found["devices"].items()}  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}, {}
    return versions, devices
