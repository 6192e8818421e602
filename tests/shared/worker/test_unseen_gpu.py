"""TensorFlow's own words for why it sees no GPU, as a sentence with what to do."""

import pytest

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
