"""What a run writes down of the machine that it runs on."""

import json

from played_gpus import GEFORCE, Machine, compiled

from shared.devices.tensorflow_build import build_here

PROGRAM = """
import json
from shared.config.settings import DataConfig
from shared.devices.gpus import choose_gpus, list_gpus
from shared.run.directory import RunDirectory
from shared.run.environment import read_environment, write_environment
run = RunDirectory({path!r})
gpus = list_gpus({fake})
write_environment(run, choose_gpus(DataConfig(data_gpu=0, model_gpu=1), gpus))
print(json.dumps(read_environment(run)))
"""


def test_gpus_are_written_down_with_capability_driver_cuda_and_cudnn(tmp_path):
    machine = Machine(compiled(tmp_path))
    program = PROGRAM.format(path=str(tmp_path), fake=0)
    versions, devices = machine.python(program, gpus=f"{GEFORCE};A100,40960,0,8.0,slices=2")
    assert devices == {
        "data": ["GPU 0: RTX 4090, 24 GB, compute capability 8.9"],
        "model": ["GPU 1: A100 MIG 1g, 20 GB, compute capability 8.0"],
    }
    assert versions["NVIDIA driver"] == "575.57.08 (serves CUDA 12.9)"
    build = build_here()
    assert versions["TensorFlow built for"] == f"CUDA {build.cuda}, cuDNN {build.cudnn}"
    assert {"CUDA runtime", "cuDNN"} <= versions.keys()


def test_of_fake_gpus_no_driver_is_claimed(tmp_path):
    machine = Machine(compiled(tmp_path))
    versions, devices = machine.python(PROGRAM.format(path=str(tmp_path), fake=2), gpus=GEFORCE)
    assert devices == {"data": ["GPU 0: fake GPU 0"], "model": ["GPU 1: fake GPU 1"]}
    assert "NVIDIA driver" not in versions and json.loads(
        (tmp_path / "environment.json").read_text()
    )
