"""What is asked of a GPU's driver while a process works on it, and what there is no answer to."""

import pytest
from played_gpus import GEFORCE, SLICES, UUIDS

from shared.devices.cores import BusyMeter

METER = """
import json, sys
from pathlib import Path
from shared.devices.nvml import GpuMeter
meter = GpuMeter({visible!r})
def all_of_it():
    return [meter.share(), meter.memory_mb(), meter.problem()]
before = all_of_it()
Path({file!r}).touch()
print(json.dumps([before, all_of_it()]))
"""


@pytest.fixture
def asked(machine, tmp_path):
    """Share, memory and problem of a GPU, before and after a file is there."""
    file = tmp_path / "happened"
    return lambda visible, gpus: machine.python(
        METER.format(visible=visible, file=str(file)), gpus=gpus.format(file=file)
    )


def test_a_gpu_says_how_busy_it_is_and_what_it_holds(asked):
    assert asked(UUIDS[0], GEFORCE) == [[0.63, 512, ""]] * 2


def test_a_slice_has_no_share_and_is_no_zero(asked):
    assert asked(SLICES[1], "A100,40960,512,8.0,slices=2") == [[None, 256, ""]] * 2


def test_a_gpu_without_figures_is_asked_by_its_index(asked):
    assert asked("0", "Orin,0,0,8.7,no_memory no_share no_uuid") == [[None, 0, ""]] * 2


def test_a_gpu_that_is_lost_while_it_works_has_no_figures_any_more_and_says_why(asked):
    before, after = asked(UUIDS[0], f"{GEFORCE},lost_if={{file}}")
    assert before == [0.63, 512, ""] and after == [None, 0, "GPU is lost"]


def test_a_gpu_by_a_name_that_the_driver_does_not_know_ends_nobody(asked):
    assert asked("MIG-1111", GEFORCE) == [[None, 0, "Not Found"]] * 2


def test_a_window_without_a_share_has_ended_all_the_same():
    meter = BusyMeter(gpu_share=lambda: None, window_s=0.0)
    assert meter.sample() and meter.share is None
