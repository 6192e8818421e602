"""The real program on GPUs that compute nothing: TensorFlow's own GPU code on a stand-in for the driver."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from played_gpus import GEFORCE, Machine, compiled

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import stand_in_gpu


@pytest.fixture(scope="module")
def two_gpus(tmp_path_factory):
    """The environment of a machine with two of them, whose NVML is the tests' own."""
    try:
        cuda = stand_in_gpu.build(tmp_path_factory.mktemp("stand-in"))
    except stand_in_gpu.NoCompiler as why:
        pytest.skip(str(why))
    nvml = compiled(tmp_path_factory.mktemp("nvml"))
    environment = stand_in_gpu.environment(cuda, gpus=2)
    environment |= Machine(nvml).environment(f"{GEFORCE};{GEFORCE}")
    environment |= {"LD_LIBRARY_PATH": f"{nvml}{os.pathsep}{cuda / 'lib'}"}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    return environment


def test_validate_fails_where_gpus_compute_nothing_at_the_first_look_at_numbers(
    two_gpus, tmp_path_factory
):
    folder = str(tmp_path_factory.mktemp("v"))  # short: sockets live below it
    done = subprocess.run(
        [sys.executable, "launcher.py", "validate", "--data-gpu", "0", "--model-gpu", "1"],
        cwd=ROOT, env={**two_gpus, "TMPDIR": folder, "XDG_RUNTIME_DIR": folder}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert "✅ 2/5 Placement" in done.stdout
    assert "❌ 3/5 Model" in done.stdout
    # What lies in memory that nobody has written to is zeros, or anything.
    looked = ("computes something else on RTX 4090: ", "gave numbers that are not finite")
    assert any(words in done.stdout for words in looked), done.stdout
    assert "4/5" not in done.stdout and "All validation checks passed" not in done.stdout
