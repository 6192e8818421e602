"""The CUDA libraries that are pinned are those that TensorFlow asks for, and serve the GPUs they are for."""

import importlib.metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from shared.devices.tensorflow_build import build_here

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements-gpu.lock", "requirements-gpu-blackwell.lock")


def pins(lock):
    lines = (ROOT / lock).read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("lock", LOCKS)
def test_everything_that_tensorflow_asks_for_is_pinned_within_its_range(lock):
    asked = [Requirement(line) for line in importlib.metadata.requires("tensorflow") or ()]
    of_cuda = {each.name: each.specifier for each in asked if each.name.startswith("nvidia-")}
    found = pins(lock)
    assert of_cuda.keys() == found.keys()
    assert all(Version(found[name]) in specifier for name, specifier in of_cuda.items())


@pytest.mark.parametrize("lock", LOCKS)
def test_cudnn_still_serves_pascal_and_volta(lock):
    assert Version(pins(lock)["nvidia-cudnn-cu12"]) < Version("9.11")


def test_the_first_is_of_the_cuda_that_tensorflow_was_built_with():
    build = build_here()
    assert build is not None
    runtime = Version(pins(LOCKS[0])["nvidia-cuda-runtime-cu12"])
    assert f"{runtime.major}.{runtime.minor}" == ".".join(build.cuda.split(".")[:2])


def test_the_second_is_of_a_cuda_that_knows_blackwell():
    found = pins(LOCKS[1])
    assert Version(found["nvidia-cuda-runtime-cu12"]) >= Version("12.8")
    assert Version(found["nvidia-cudnn-cu12"]) >= Version("9.7")
