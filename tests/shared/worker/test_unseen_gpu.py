"""TensorFlow's own words for why it sees no GPU, as a sentence with what to do."""

import pytest
from played_gpus import GEFORCE, UUIDS, Machine, compiled

from shared.worker.unseen_gpu import in_words

OPENED = "I0000 dso_loader.cc:133] Successfully opened dynamic library libcuda.so.1\n"


def missing(library):
    return (
        f"I0000 00:00:1 1 dso_loader.cc:144] Could not load dynamic library '{library}'; dlerror: "
        f"{library}: cannot open shared object file: No such file or directory; LD_LIBRARY_PATH: /x\n"
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (OPENED + missing("libcudnn.so.9"),
         "it needs libcudnn.so.9 (cannot open shared object file: No such file or directory). "
         "Install its CUDA libraries: python -m pip install -r requirements-gpu.lock"),
        (missing("libcudnn.so.9") + missing("libnvidia-ml.so.1"),
         "it needs the driver's libnvidia-ml.so.1 (cannot open shared object file: No such file or "
         "directory). Install the NVIDIA driver again"),
        ("E0 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: UNKNOWN ERROR (303)\n",
         "CUDA says: INTERNAL: CUDA error: UNKNOWN ERROR (303). See whether nvidia-smi works, and "
         "restart the machine"),
        ("", "it does not say why. Install its CUDA libraries: python -m pip install -r "
         "requirements-gpu.lock"),
    ],
)  # fmt: skip
def test_the_cause_is_named_with_its_remedy(said, words):
    assert in_words(said) == words


def test_a_worker_whose_machine_lacks_a_library_ends_with_its_name(tmp_path):
    """Its driver answers, and CUDA itself is not there: what TensorFlow finds here is real."""
    program = """
import json
from shared.config.settings import Config
from shared.errors import GpuError
from shared.worker.start import start_tensorflow
try:
    start_tensorflow("model", "gpu", Config())
except GpuError as error:
    print(json.dumps([error.exit_code, str(error)]))
"""
    machine = Machine(compiled(tmp_path))
    code, said = machine.python(program, gpus=GEFORCE, visible=UUIDS[0])
    assert code == 1
    assert said.startswith(
        "the model process must see exactly one GPU, but TensorFlow sees 0: it needs "
    )
    assert "libcuda.so.1" in said and "Install the NVIDIA driver again" in said
