"""Which numbers a device is given, and which are refused before anything heavy starts."""

import dataclasses

import pytest

from shared.config.option import rules_of
from shared.config.settings import ModelConfig
from shared.devices.gpus import Gpu
from shared.devices.precision import AUTO, check_precision, chosen_by
from shared.errors import GpuError

GPU = Gpu(0, "GeForce", "GPU-aaaa", 24 << 10, 0)


@pytest.mark.parametrize(
    ("capability", "name"),
    [(None, "float32"), ((6, 1), "float32"), ((7, 0), "float16"), ((7, 5), "float16"),
     ((8, 0), "bfloat16"), ((8, 9), "bfloat16"), ((12, 0), "bfloat16")],
)  # fmt: skip
def test_auto_follows_the_capability_and_is_never_refused(capability, name):
    gpu = dataclasses.replace(GPU, capability=capability)
    assert chosen_by(capability) == name
    check_precision("auto", gpu)
    check_precision(name, gpu)


@pytest.mark.parametrize(
    ("wanted", "capability", "said"),
    [("bfloat16", (7, 5), "compute capability 8.0; GeForce has 7.5. Give --precision auto: there it is float16."),
     ("float16", (6, 1), "compute capability 7.0; GeForce has 6.1. Give --precision auto: there it is float32.")],
)  # fmt: skip
def test_what_a_gpu_has_no_units_for_is_refused(wanted, capability, said):
    with pytest.raises(GpuError) as caught:
        check_precision(wanted, dataclasses.replace(GPU, capability=capability))
    assert said in str(caught.value) and caught.value.exit_code == 1


def test_where_nothing_is_known_of_the_device_nothing_is_refused():
    check_precision("float16", GPU)
    check_precision("bfloat16", None)


def test_what_is_chosen_can_also_be_asked_for():
    choices = rules_of(ModelConfig)["precision"].choices
    assert {chosen_by(each) for each in (None, (7, 0), (8, 0))} | {AUTO} <= set(choices)
