"""One compilation of the played driver for all tests of this folder."""

import pytest
from played_gpus import Machine, compiled


@pytest.fixture(scope="session")
def machine(tmp_path_factory):
    """A machine whose GPUs each test chooses."""
    return Machine(compiled(tmp_path_factory.mktemp("nvml")))
