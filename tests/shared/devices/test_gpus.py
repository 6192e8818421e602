"""Which GPUs can be named, and what each impossible wish is answered with."""

import sys
import types
from typing import Any

import pytest

from shared.config.settings import DataConfig
from shared.devices.gpus import Gpu, list_gpus, place, restrict, worker_environment
from shared.errors import GpuError

UUIDS = ["GPU-aaaa-0000", "GPU-bbbb-1111", "GPU-cccc-2222"]


@pytest.fixture
def fake_nvml(monkeypatch):
    """A machine with three GPUs; there is no driver where the tests run."""
    nvml: Any = types.ModuleType("pynvml")
    nvml.NVMLError = type("NVMLError", (Exception,), {})
    nvml.NVMLError_NotSupported = type("NVMLError_NotSupported", (nvml.NVMLError,), {})
    nvml.num_open = 0

    def init():
        nvml.num_open += 1

    def shut_down():
        nvml.num_open -= 1

    nvml.nvmlInit = init
    nvml.nvmlShutdown = shut_down
    nvml.nvmlDeviceGetCount = lambda: len(UUIDS)
    nvml.nvmlDeviceGetHandleByIndex = lambda index: index
    nvml.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(total=(24 + handle) << 30)
    nvml.nvmlDeviceGetUUID = lambda handle: UUIDS[handle]
    nvml.nvmlDeviceGetName = lambda handle: b"GeForce"  # older bindings answer in bytes
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return nvml


def visible(setting):
    return [
        (gpu.index, gpu.physical_index) for gpu in list_gpus(0, {"CUDA_VISIBLE_DEVICES": setting})
    ]


def two_gpus():
    return list_gpus(2)


def refused(gpus, **wishes):
    with pytest.raises(GpuError) as caught:
        place(DataConfig(**wishes), gpus)
    assert caught.value.exit_code == 1
    return str(caught.value)


def test_gpus_are_listed_with_name_memory_and_uuid(fake_nvml):
    first, second, third = list_gpus(0, {})
    assert first == Gpu(0, "GeForce", "GPU-aaaa-0000", 24 << 10, 0)
    assert (second.index, third.index) == (1, 2)
    assert fake_nvml.num_open == 0


def test_without_a_driver_there_is_no_gpu(fake_nvml):
    def fail():
        raise fake_nvml.NVMLError("no driver")

    fake_nvml.nvmlInit = fail
    assert list_gpus(0, {}) == []


def test_nvml_is_closed_again_when_a_device_fails(fake_nvml):
    def fail(index):
        raise fake_nvml.NVMLError("GPU is lost")

    fake_nvml.nvmlDeviceGetHandleByIndex = fail
    with pytest.raises(GpuError, match="GPU 0 is .GPU is lost."):
        list_gpus(0, {})
    assert fake_nvml.num_open == 0


def test_a_gpu_that_has_no_memory_of_its_own_is_listed(fake_nvml):
    def fail(handle):
        raise fake_nvml.NVMLError_NotSupported("not supported")

    fake_nvml.nvmlDeviceGetMemoryInfo = fail
    assert [gpu.memory_mb for gpu in list_gpus(0, {})] == [0, 0, 0]


@pytest.mark.parametrize("setting", ["0,0", "1,GPU-bbbb-1111"])
def test_a_gpu_that_is_named_twice_is_not_two(fake_nvml, setting):
    with pytest.raises(GpuError, match="twice"):
        visible(setting)


def test_indices_that_the_user_has_set_restrict_and_renumber(fake_nvml):
    assert visible("2,0") == [(0, 2), (1, 0)]
    assert visible(" 1 , 2 ") == [(0, 1), (1, 2)]
    assert visible("") == []
    assert visible("-1") == []


def test_uuids_that_the_user_has_set_restrict_and_renumber(fake_nvml):
    assert visible("GPU-cccc-2222,GPU-aaaa-0000") == [(0, 2), (1, 0)]
    assert visible("GPU-bbbb") == [(0, 1)]


def test_the_list_ends_at_the_first_entry_that_names_no_gpu(fake_nvml):
    assert visible("1,7,0") == [(0, 1)]
    assert visible("GPU-aaaa,GPU-zzzz,1") == [(0, 0)]


def test_a_mig_slice_is_passed_on_as_it_is(fake_nvml):
    (gpu,) = list_gpus(0, {"CUDA_VISIBLE_DEVICES": "MIG-1234"})
    assert worker_environment(gpu)["CUDA_VISIBLE_DEVICES"] == "MIG-1234"


def test_a_restricted_gpu_reaches_its_worker_by_uuid(fake_nvml):
    gpu = list_gpus(0, {"CUDA_VISIBLE_DEVICES": "2"})[0]
    assert worker_environment(gpu) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-cccc-2222",
    }


def test_a_worker_without_a_gpu_sees_none():
    assert worker_environment(None)["CUDA_VISIBLE_DEVICES"] == ""


def test_fake_gpus_need_no_driver_and_ignore_the_environment():
    gpus = list_gpus(3, {"CUDA_VISIBLE_DEVICES": "7"})
    assert [(gpu.index, gpu.visible_as, gpu.fake) for gpu in gpus] == [
        (0, "0", True),
        (1, "1", True),
        (2, "2", True),
    ]


def test_restricting_nothing_changes_nothing():
    assert restrict(two_gpus(), None) == two_gpus()


def test_no_flag_means_single_gpu_buffered_mode():
    placement = place(DataConfig(), two_gpus())
    assert placement.mode == "Single-GPU Buffered Mode"
    assert placement.data_gpus == ()
    assert placement.model_gpu.index == 0
    assert place(DataConfig(), []).model_gpu is None


def test_both_flags_mean_multi_gpu_mode():
    placement = place(DataConfig(data_gpu=(2, 0), model_gpu=1), list_gpus(3))
    assert placement.mode == "Multi-GPU Mode"
    assert [gpu.index for gpu in placement.data_gpus] == [2, 0]
    assert placement.model_gpu.index == 1


def test_a_data_gpu_alone_is_refused():
    found = refused(two_gpus(), data_gpu=0)
    assert found.startswith("--data-gpu was given without --model-gpu. Give both, such as")


def test_a_model_gpu_alone_is_refused():
    found = refused(two_gpus(), model_gpu=0)
    assert found.startswith("--model-gpu was given without --data-gpu. Give both, such as")


@pytest.mark.parametrize("num_gpus", [0, 1])
def test_too_few_gpus_are_refused(num_gpus):
    found = refused(list_gpus(num_gpus) if num_gpus else [], data_gpu=0, model_gpu=1)
    assert found.startswith(f"Multi-GPU requires at least 2 GPUs, found {num_gpus}\n")
    assert "--fake-gpus 2" in found


def test_an_index_that_is_not_there_is_refused():
    assert refused(two_gpus(), data_gpu=0, model_gpu=99) == "Invalid model_gpu=99, must be 0-1"
    assert refused(two_gpus(), data_gpu=(0, 5), model_gpu=1) == "Invalid data_gpu=5, must be 0-1"
    assert refused(two_gpus(), data_gpu=-1, model_gpu=1) == "Invalid data_gpu=-1, must be 0-1"


def test_equal_indices_are_refused_with_two_that_differ():
    found = refused(two_gpus(), data_gpu=1, model_gpu=1)
    assert found == (
        "data_gpu and model_gpu are the same GPU (1). Choose two different ones, such as "
        "--data-gpu 0 --model-gpu 1."
    )
