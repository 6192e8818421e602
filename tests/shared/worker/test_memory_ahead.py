"""What steps of every size take of a GPU, from what was predicted of few rows and of many."""

import dataclasses

import pytest

from shared.config.settings import Config, ModelConfig
from shared.console.memory_text import memory_lines
from shared.devices.gpus import Gpu
from shared.worker.check_lines import Predicted
from shared.worker.memory_ahead import LIBRARIES_MB, precision_on, sizes, table_of

LENGTHS = (1296, 180)
FOUND = [
    Predicted("small", 8, LENGTHS, 500), Predicted("small", 32, LENGTHS, 1700),
    Predicted("big", 8, LENGTHS, 2000), Predicted("big", 32, LENGTHS, 6800),
]  # fmt: skip


def table(free_mb):
    return table_of(FOUND, "bfloat16", free_mb, ("num_frames", "num_symbols"))


def test_memory_grows_evenly_with_the_rows_from_what_was_traced():
    small, big = table(0).fits
    assert small.megabytes == {"8": 500, "16": 900, "32": 1700, "48": 2500}
    assert big.megabytes == {"8": 2000, "16": 3600, "32": 6800, "48": 10000}
    assert small.most_rows is None and big.most_rows is None


@pytest.mark.parametrize(
    ("free_mb", "rows"), [(8192, (48, 32)), (4096, (48, 12)), (LIBRARIES_MB + 300, (4, 0))]
)
def test_as_many_rows_as_fit_are_told_of_each_size(free_mb, rows):
    assert tuple(fit.most_rows for fit in table(free_mb).fits) == rows


def test_a_person_reads_a_table_of_sizes_and_rows():
    lines = list(memory_lines(dataclasses.asdict(table(8192))))
    assert lines[0] == (
        "Memory that a step takes on a GPU (batches of 1,296 frames, 180 symbols; bfloat16; 8.0 GB free)"
    )
    assert lines[1].split() == ["8", "rows", "16", "rows", "32", "rows", "48", "rows", "fit"]
    assert lines[3].split() == [
        "big",
        "2.0",
        "GB",
        "3.5",
        "GB",
        "6.6",
        "GB",
        "9.8",
        "GB",
        "32",
        "rows",
    ]
    assert "not measured" in lines[-1]
    without = list(memory_lines(dataclasses.asdict(table(0))))
    assert "fit" not in without[1] and "free" not in without[0]


def test_it_is_predicted_in_the_numbers_that_the_gpu_would_compute_in():
    newer = Gpu(0, "GeForce", "GPU-aaaa", 24 << 10, 0, capability=(8, 9))
    assert precision_on(Config(), newer) == "bfloat16" and precision_on(Config(), None) == "float32"
    assert precision_on(Config(model=ModelConfig(precision="tf32")), newer) == "tf32"


def test_every_size_of_the_model_is_one_to_predict():
    assert sizes() == ("tiny", "small", "normal", "big")
