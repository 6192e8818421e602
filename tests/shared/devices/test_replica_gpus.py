"""Which GPUs several model processes get where none were named."""

import pytest

from shared.config.settings import DataConfig
from shared.devices.gpus import choose_gpus, list_gpus
from shared.errors import PlacementError


def test_each_model_process_has_a_gpu_of_its_own_or_all_are_on_the_cpu():
    config = DataConfig(model_replicas=2)
    assert [gpu.index for gpu in choose_gpus(config, list_gpus(3)).model_gpus] == [0, 1]
    assert choose_gpus(config, []).model_gpus == (None, None)
    assert choose_gpus(DataConfig(), list_gpus(2)).further_model_gpus == ()


def test_too_few_gpus_are_told_with_what_to_do():
    with pytest.raises(
        PlacementError, match="2 model processes need a GPU each, but 1 can be used"
    ):
        choose_gpus(DataConfig(model_replicas=2), list_gpus(1))
