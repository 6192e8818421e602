"""The batch size that fits a GPU, from what steps of two sizes take of it."""

import pytest

from shared.config.option import AUTO
from shared.config.settings import Config, DataConfig
from shared.devices.gpus import Gpu
from shared.launching.batch_size import with_batch_size
from shared.run.directory import RunDirectory
from shared.worker.check_lines import Predicted
from shared.worker.memory_ahead import LIBRARIES_MB, fitting_rows

FEW, MANY = (
    Predicted("", 8, (1296,), 500),
    Predicted("", 32, (1296,), 1700),
)  # 100 MB, and 50 MB a row


@pytest.mark.parametrize(
    ("free_mb", "rows"),
    [(LIBRARIES_MB + 1100, 20), (LIBRARIES_MB + 100 + 50 * 23, 20), (24_000, 48),
     (LIBRARIES_MB + 260, 3), (LIBRARIES_MB + 120, 0)],
)  # fmt: skip
def test_as_many_rows_as_fit_beside_the_libraries_are_taken_up_to_what_is_of_use(free_mb, rows):
    assert fitting_rows(FEW, MANY, free_mb) == rows


def test_a_size_that_was_given_stays_and_without_a_gpu_it_is_the_usual_one(tmp_path):
    run, said = RunDirectory(tmp_path), []
    given = Config(data=DataConfig(batch_size=7))
    assert with_batch_size(given, run, None, said.append) is given and not said
    for gpu in (None, Gpu(0, "Orin", "0", 0, 0)):
        found = with_batch_size(Config(data=DataConfig(batch_size=AUTO)), run, gpu, said.append)
        assert found.data.batch_size == DataConfig().batch_size
    assert len(said) == 2
