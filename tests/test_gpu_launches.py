"""What a step, the features of a batch and speaking ask of a GPU stays within bounds: counted on a stand-in."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT / "benchmarks"))

import stand_in_gpu

WORK = CHECKOUT / "benchmarks" / "gpu_work.py"


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    try:
        return stand_in_gpu.build(tmp_path_factory.mktemp("stand-in"))
    except stand_in_gpu.NoCompiler as why:
        pytest.skip(str(why))


def asked(stand_in, *works):
    """What each of the works asks for; all in one process."""
    done = subprocess.run(
        [sys.executable, str(WORK), " / ".join(works)],
        env=stand_in_gpu.environment(stand_in), capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()[-len(works) :]]


@pytest.fixture(scope="module")
def steps(stand_in):
    return asked(stand_in, "step least", "step least bfloat16 waiting nothing", "validation least")


def test_a_step_waits_for_nothing_and_asks_for_little(steps):
    step, _, _ = steps
    assert step["waits"] == step["to_host"] == 0, step["names"]
    assert step["in_all"] <= 660


def test_a_wait_that_is_put_into_the_step_is_seen(steps):
    _, waiting, _ = steps
    assert waiting["to_host"] > 0


def test_a_batch_of_a_validation_comes_back_in_one_copy(steps):
    _, _, validation = steps
    assert validation["to_host"] == 1
    assert validation["in_all"] <= 440


def test_features_are_few_calls_whatever_their_length_and_one_copy_back(stand_in):
    for features in asked(stand_in, "features 160", "features 1296", "features 192 references"):
        assert features["in_all"] <= 300
        assert features["to_host"] == 1
