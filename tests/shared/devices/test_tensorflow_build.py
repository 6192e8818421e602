"""What TensorFlow was built for, read without TensorFlow, and which GPUs that leaves out."""

import json
import subprocess
import sys

import pytest

from shared.devices import tensorflow_build
from shared.devices.nvml import Driver
from shared.devices.tensorflow_build import Build, build_here

TODAYS = Build("12.5.1", "9", ((6, 0), (7, 0), (8, 0), (8, 9)), ((9, 0),))
NEW = Driver("575.57.08", (12, 9))


def test_it_is_what_tensorflow_says_of_itself():
    program = (
        "import json, tensorflow as tf; "
        "print(json.dumps(tf.sysconfig.get_build_info()['cuda_compute_capabilities']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    build = build_here()
    names = [f"sm_{a}{b}" for a, b in build.machine_code] + [
        f"compute_{a}{b}" for a, b in build.text
    ]
    assert names == json.loads(done.stdout)


@pytest.mark.parametrize(
    ("capability", "is_compiled_first"),
    [((6, 1), False), ((7, 5), False), ((8, 6), False), ((8, 9), False), ((9, 0), True), ((12, 0), True)],
)  # fmt: skip
def test_machine_code_serves_its_own_generation_and_text_all_that_is_later(
    monkeypatch, capability, is_compiled_first
):
    monkeypatch.setattr(tensorflow_build, "installed_cudnn", lambda: (9, 10))
    assert TODAYS.is_compiled_first(capability) is is_compiled_first
    assert TODAYS.problem(capability, NEW) == ""


def test_what_is_older_than_all_of_it_is_of_no_use():
    assert "compute capability is 5.2" in TODAYS.problem((5, 2), NEW)


@pytest.mark.parametrize(
    ("cudnn", "left_out", "served", "lock"),
    [
        ((9, 27), (6, 1), (7, 5), "requirements-gpu.lock"),
        ((9, 27), (7, 0), (12, 0), "requirements-gpu.lock"),
        ((9, 3), (12, 0), (9, 0), "requirements-gpu-blackwell.lock"),
    ],
)  # fmt: skip
def test_a_cudnn_that_does_not_serve_a_gpu_is_named_with_what_to_install(
    monkeypatch, cudnn, left_out, served, lock
):
    monkeypatch.setattr(tensorflow_build, "installed_cudnn", lambda: cudnn)
    said = TODAYS.problem(left_out, NEW)
    assert f"cuDNN {cudnn[0]}.{cudnn[1]} does not serve" in said and lock in said
    assert TODAYS.problem(served, NEW) == ""


def test_a_build_without_gpus_says_so():
    assert "without GPU support" in Build("", "").problem((8, 9), NEW)


def test_a_driver_or_a_capability_that_nobody_told_is_no_problem():
    assert TODAYS.problem(None, Driver("unknown", None)) == ""
