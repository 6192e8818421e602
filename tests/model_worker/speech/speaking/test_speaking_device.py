"""Where a run speaks, on machines whose driver is played."""

import pytest
from played_gpus import GEFORCE, UUIDS, Machine, compiled

from shared.config.variables import FAKE_GPUS_VARIABLE

PROGRAM = """
import json, os
from model_worker.speech.speaking.speaking_device import fix_speaking_device
from shared.config.settings import Config, DataConfig
said = []
config = Config(data=DataConfig(data_gpu={data}, model_gpu={model}))
kind = fix_speaking_device(config, said.append)
print(json.dumps([kind, os.environ["CUDA_VISIBLE_DEVICES"], said]))
"""
AT_WORK = f"{GEFORCE},programs=1"


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return Machine(compiled(tmp_path_factory.mktemp("nvml")))


@pytest.fixture
def spoken(machine, monkeypatch):
    """Kind and name of the device that a run with these GPUs speaks on, and what is said about it."""
    monkeypatch.delenv(FAKE_GPUS_VARIABLE, raising=False)
    return lambda gpus, data=None, model=None, **played: machine.python(
        PROGRAM.format(data=data, model=model), gpus=gpus, **played
    )


def test_an_idle_gpu_of_the_run_speaks(spoken):
    assert spoken(f"{GEFORCE};{GEFORCE}", 0, 1) == ["gpu", UUIDS[1], []]
    assert spoken(GEFORCE) == ["gpu", UUIDS[0], []]


def test_a_gpu_that_trains_is_left_alone_for_an_idle_one(spoken):
    kind, visible, said = spoken(f"{GEFORCE};{AT_WORK}", 0, 1)
    assert (kind, visible) == ("gpu", UUIDS[0])
    assert said == ["⚠️  1 program at work on GPU 1: speaking on GPU 0"]


def test_where_all_are_at_work_the_cpu_speaks_and_says_so(spoken):
    kind, visible, said = spoken(f"{GEFORCE},programs=2;{AT_WORK}", 1, 0)
    assert (kind, visible) == ("cpu", "")
    assert said == ["⚠️  2 programs at work on GPU 0: speaking on the CPU"]
    assert spoken(AT_WORK)[0] == "cpu"


def test_a_gpu_that_is_not_here_is_told_with_where_it_speaks_instead(spoken):
    assert spoken(GEFORCE, 0, 1) == [
        "gpu", UUIDS[0], ["⚠️  The run's GPU 1 is not here: speaking on GPU 0"],
    ]  # fmt: skip


def test_a_driver_that_fails_is_only_worth_a_word(spoken):
    kind, _, (said, *_) = spoken(GEFORCE, init="18")
    assert kind == "cpu" and said.startswith("⚠️  Speaking on the CPU: the NVIDIA driver")
