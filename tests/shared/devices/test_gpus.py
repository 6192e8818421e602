"""Which GPUs can be named, and what each impossible wish is answered with.

The driver is played by a C library (tests/support/played_nvml.c); the bindings and all above them
are real.
"""

import pytest
from played_gpus import GEFORCE, SLICES, UUIDS

from shared.config.settings import DataConfig
from shared.devices.gpus import Gpu, choose_gpus, list_gpus, restrict, worker_environment
from shared.devices.nvml import FoundGpu
from shared.errors import GpuError

LIST = """
import dataclasses, json
from shared.devices.gpus import list_gpus
print(json.dumps([dataclasses.asdict(gpu) for gpu in list_gpus(0)]))
"""
THREE = f"{GEFORCE};GTX 1080 Ti,11264,0,6.1;{GEFORCE}"


@pytest.fixture
def listed(machine):
    """What list_gpus says on a machine."""
    return lambda gpus, visible=None, **played: machine.python(
        LIST, gpus=gpus, visible=visible, **played
    )


@pytest.fixture
def train(machine, tmp_path):
    """How the launcher ends on a machine, with what it says."""

    def run(*flags, **played):
        done = machine.launcher("--train-data", str(tmp_path / "no"), *flags, **played)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    return run


def two_gpus():
    return list_gpus(2)


def refused(gpus, **wishes):
    with pytest.raises(GpuError) as caught:
        choose_gpus(DataConfig(**wishes), gpus)
    assert caught.value.exit_code == 1
    return str(caught.value)


def of_indices(gpus):
    return [(gpu["index"], gpu["physical_index"]) for gpu in gpus]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_gpus_are_listed_with_name_memory_capability_and_uuid(listed, count):
    found = listed(";".join([GEFORCE] * count))
    assert len(found) == count
    assert found[-1] == {
        "index": count - 1, "name": "RTX 4090", "visible_as": UUIDS[count - 1], "memory_mb": 24576,
        "physical_index": count - 1, "fake": False, "used_mb": 512, "capability": [8, 9],
        "num_programs": 0, "is_one_of_many_kinds": False, "problem": "",
    }  # fmt: skip


def test_without_the_drivers_library_there_is_no_gpu(machine, tmp_path):
    assert type(machine)(tmp_path).python(LIST, gpus=GEFORCE) == []


def test_without_a_loaded_driver_there_is_no_gpu(listed):
    assert listed(GEFORCE, init="9") == []


def test_a_driver_library_that_is_damaged_is_no_missing_one(machine, tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"not a library")
    done = type(machine)(tmp_path).launcher("--train-data", "x", gpus=GEFORCE)
    assert done.returncode == 1
    assert "the NVIDIA driver's library can't be loaded" in done.stderr


@pytest.mark.parametrize(
    ("init", "said", "remedy"),
    [
        ("18", "Driver/library version mismatch", "Restart the machine."),
        ("4", "Insufficient Permissions", "the right to use /dev/nvidia*."),
        ("999", "Unknown Error", "See what nvidia-smi says"),
    ],
)  # fmt: skip
def test_a_driver_that_refuses_is_an_error_in_its_own_words(train, init, said, remedy):
    status, error = train(gpus=GEFORCE, init=init)
    assert status == 1 and f"(it says: {said})" in error and remedy in error


def test_who_hides_all_gpus_does_not_ask_the_driver(listed):
    assert listed(GEFORCE, visible="", init="18") == []
    assert listed(GEFORCE, visible="-1", init="18") == []


def test_a_lost_gpu_that_nobody_named_is_passed_over(listed, train):
    machine = f"{GEFORCE},lost;{GEFORCE}"
    assert [gpu["problem"] for gpu in listed(machine)] == ["GPU is lost", ""]
    status, error = train(gpus=machine)  # which comes to its data: the GPUs were no problem
    assert status == 2 and "there is no such folder" in error


def test_a_lost_gpu_that_was_named_is_an_error_in_the_drivers_words(train):
    status, error = train("--data-gpu", "0", "--model-gpu", "1", gpus=f"{GEFORCE};{GEFORCE},lost")
    assert status == 1 and "❌ GPU 1 can't be used: GPU is lost." in error


def test_a_gpu_that_is_hidden_does_not_matter(train):
    status, _ = train("--data-gpu", "0", "--model-gpu", "1", gpus=f"{GEFORCE};{GEFORCE},lost;{GEFORCE}",
                      visible="0,2")  # fmt: skip
    assert status == 2


def test_where_no_gpu_can_be_used_nothing_trains_on_the_cpu_in_silence(train):
    status, error = train(gpus=f"{GEFORCE},forbidden;{GEFORCE},forbidden")
    assert status == 1 and "GPU 0 can't be used: Insufficient Permissions." in error
    status, error = train(gpus=f"{GEFORCE},lost;{GEFORCE}", visible="0")
    assert status == 1 and "GPU 0 can't be used: GPU is lost." in error


def test_a_forbidden_gpu_that_is_named_by_its_uuid_is_an_error(train):
    status, error = train(gpus=f"{GEFORCE};{GEFORCE},forbidden", visible=UUIDS[1])
    assert status == 1 and "Insufficient Permissions" in error


def test_a_gpu_without_memory_or_share_of_its_own_is_listed(listed):
    (gpu,) = listed("Orin,0,0,8.7,no_memory no_share no_uuid")
    assert (gpu["memory_mb"], gpu["visible_as"], gpu["problem"]) == (0, "0", "")


def test_a_gpu_that_other_programs_have_filled_is_an_error_only_where_it_is_named(listed, train):
    full = f"RTX 4090,24576,24300,8.9;{GEFORCE}"
    assert listed(full)[0]["problem"] == "other programs hold 23.7 of its 24.0 GB"
    assert train(gpus=full)[0] == 2
    status, error = train("--data-gpu", "0", "--model-gpu", "1", gpus=full)
    assert status == 1 and "GPU 0 can't be used: other programs hold 23.7 of its 24.0 GB" in error


def test_a_driver_that_is_too_old_is_an_error_with_the_oldest_that_will_do(train):
    status, error = train(gpus=GEFORCE, driver="470.82.01", cuda="11040")
    assert status == 1
    assert "its driver 470.82.01 serves CUDA 11.4" in error and "driver 525.60 or later" in error


def test_a_gpu_that_is_older_than_what_tensorflow_was_built_for_is_an_error(train):
    status, error = train(gpus="GTX 980,4096,0,5.2")
    assert (
        status == 1 and "its compute capability is 5.2, and TensorFlow was built for 6.0" in error
    )


def test_a_gpu_that_is_newer_has_its_kernels_compiled_first_and_its_worker_knows(machine):
    program = """
import json
from shared.devices.gpus import choose_gpus, list_gpus, worker_environment
from shared.devices.gpu_remarks import remarks
from shared.config.settings import DataConfig
gpus = list_gpus(0)
placement = choose_gpus(DataConfig(data_gpu=0, model_gpu=1), gpus)
print(json.dumps([remarks(gpus, placement), [worker_environment(gpu) for gpu in gpus]]))
"""
    said, (usual, newer) = machine.python(program, gpus=f"{GEFORCE};RTX 5090,32768,0,12.0")
    assert len(said) == 1 and said[0].startswith(
        "GPU 1 (RTX 5090, compute capability 12.0) is newer"
    )
    assert newer["TANDEM_COMPILES_KERNELS"] == "1" and newer["CUDA_CACHE_MAXSIZE"] == str(4 << 30)
    assert set(usual) == {"CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"}


REMARKS = """
import json
from shared.devices.gpus import list_gpus, choose_gpus
from shared.devices.gpu_remarks import remarks
from shared.config.settings import DataConfig
gpus = list_gpus(0)
print(json.dumps(remarks(gpus, choose_gpus(DataConfig(data_gpu={data}, model_gpu={model}), gpus), {workers})))
"""
MIXED = (
    f"GTX 1080 Ti,11264,0,6.1;{GEFORCE}"  # in the order of the bus: CUDA has the other one first
)


def test_gpus_are_counted_as_nvidia_smi_does_whatever_order_cuda_has(machine, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    program = """
import json
from shared.devices.gpus import list_gpus, worker_environment
print(json.dumps([[gpu.name, worker_environment(gpu)] for gpu in list_gpus(0)]))
"""
    (slow, slow_one), (fast, fast_one) = machine.python(program, gpus=MIXED)
    assert (slow, fast) == ("GTX 1080 Ti", "RTX 4090")
    assert [each["CUDA_VISIBLE_DEVICES"] for each in (slow_one, fast_one)] == list(UUIDS[:2])
    assert slow_one["CUDA_DEVICE_ORDER"] == fast_one["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


@pytest.mark.parametrize(
    ("gpus", "visible", "order", "is_said"),
    [
        (MIXED, "1,0", "FASTEST_FIRST", True),
        (MIXED, "0,1", None, True),
        (MIXED, "0,1", "PCI_BUS_ID", False),
        (MIXED, f"{UUIDS[1]},{UUIDS[0]}", None, False),
        (f"{GEFORCE};{GEFORCE}", "1,0", None, False),
    ],
)  # fmt: skip
def test_numbers_that_cuda_would_read_otherwise_are_told_with_the_names(
    machine, monkeypatch, gpus, visible, order, is_said
):
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    if order:
        monkeypatch.setenv("CUDA_DEVICE_ORDER", order)
    program = REMARKS.format(data=0, model=1, workers=1)
    said = [
        each
        for each in machine.python(program, gpus=gpus, visible=visible)
        if "nvidia-smi counts" in each
    ]
    assert len(said) == is_said
    if visible == "1,0" and is_said:
        assert "GPU 1 (RTX 4090), 0 (GTX 1080 Ti)" in said[0]


@pytest.mark.parametrize(
    ("workers", "has_server", "is_said"), [(1, False, 0), (2, False, 1), (2, True, 0)]
)
def test_data_processes_that_take_turns_on_a_gpu_are_told_unless_a_server_mixes_them(
    machine, tmp_path, monkeypatch, workers, has_server, is_said
):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    if has_server:
        (tmp_path / "control").touch()
    program = REMARKS.format(data=0, model=1, workers=workers)
    said = machine.python(program, gpus=f"{GEFORCE};{GEFORCE}")
    assert len(said) == is_said
    assert all("2 data processes take turns on it" in each and "MPS" in each for each in said)


def test_programs_that_compute_on_a_gpu_are_counted(listed):
    busy, idle = listed(f"{GEFORCE},programs=3;{GEFORCE}")
    assert (busy["num_programs"], idle["num_programs"]) == (3, 0)


def test_what_other_programs_hold_is_said_where_it_is_much(machine):
    program = """
import json
from shared.devices.gpus import choose_gpus, list_gpus
from shared.devices.gpu_remarks import remarks
from shared.config.settings import DataConfig
gpus = list_gpus(0)
print(json.dumps(remarks(gpus, choose_gpus(DataConfig(), gpus))))
"""
    (said,) = machine.python(program, gpus="RTX 4090,24576,12288,8.9")
    assert said.startswith("GPU 0: other programs hold 12.0 of its 24.0 GB")
    assert machine.python(program, gpus=GEFORCE) == []


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ("2,0", [(0, 2), (1, 0)]),
        (" 1 , 2 ", [(0, 1), (1, 2)]),
        ("1,7,0", [(0, 1)]),
        (f"{UUIDS[2]},{UUIDS[0]}", [(0, 2), (1, 0)]),
        ("GPU-2222", [(0, 1)]),
        ("GPU-1111,GPU-zzzz,1", [(0, 0)]),
    ],
)  # fmt: skip
def test_what_the_user_has_set_restricts_and_renumbers(listed, setting, found):
    assert of_indices(listed(THREE, visible=setting)) == found


@pytest.mark.parametrize("setting", ["0,0", "1,GPU-2222"])
def test_a_gpu_that_is_named_twice_is_not_two(train, setting):
    status, error = train(gpus=THREE, visible=setting)
    assert status == 1 and "twice" in error


def test_a_uuid_that_is_cut_too_short_is_refused():
    alike = [FoundGpu(0, uuid="GPU-aa01"), FoundGpu(1, uuid="GPU-aa02")]
    with pytest.raises(GpuError, match="names GPU-aa, with which 2 GPUs begin"):
        restrict(alike, "GPU-aa")
    assert restrict(alike, "GPU-aa02") == [alike[1]]


def test_a_gpu_in_mig_mode_is_its_first_slice_and_the_others_are_named_by_uuid(listed):
    split = f"A100,40960,0,8.0,slices=2;{GEFORCE}"
    first, second = listed(split)
    assert (first["visible_as"], first["name"]) == (SLICES[0], "A100 MIG 1g")
    assert (first["memory_mb"], first["capability"]) == (20480, [8, 0])
    assert second["visible_as"] == UUIDS[1]
    both = listed(split, visible=f"{SLICES[1]},{SLICES[0]}")
    assert [gpu["visible_as"] for gpu in both] == [SLICES[1], SLICES[0]]


def test_a_slice_that_is_named_by_a_part_of_its_uuid_reaches_its_worker_by_all_of_it(listed):
    (gpu,) = listed("A100,40960,0,8.0,slices=1", visible="MIG-1111")
    assert gpu["visible_as"] == SLICES[0]


def test_a_gpu_in_mig_mode_without_slices_is_of_no_use(train):
    status, error = train(gpus="A100,40960,0,8.0,slices=0")
    assert status == 1 and "GPU 0 can't be used: it is in MIG mode and has no slices" in error


def test_a_restricted_gpu_reaches_its_worker_by_uuid(listed):
    (gpu,) = listed(THREE, visible="2")
    assert worker_environment(Gpu(**{**gpu, "capability": tuple(gpu["capability"])})) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": UUIDS[2],
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


def test_no_flag_means_single_gpu_buffered_mode():
    placement = choose_gpus(DataConfig(), two_gpus())
    assert placement.mode == "Single-GPU Buffered Mode"
    assert placement.data_gpus == ()
    assert placement.model_gpu.index == 0
    assert choose_gpus(DataConfig(), []).model_gpu is None


def test_both_flags_mean_multi_gpu_mode():
    placement = choose_gpus(DataConfig(data_gpu=(2, 0), model_gpu=1), list_gpus(3))
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
