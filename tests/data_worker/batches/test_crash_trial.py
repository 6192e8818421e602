"""A file that crashes its decoder is convicted; nothing else is."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from data_worker.batches.crash_trial import find_guilty
from shared.config.settings import Config, DataConfig
from shared.plan.index import Index, StringColumn
from shared.worker.reports import Reporter

FAULTY = Path(__file__).resolve().parents[2] / "faulty"


@pytest.fixture
def data(tmp_path):
    """Three recordings and one that is gone: the configuration and the index's file."""
    for number in range(3):
        soundfile.write(tmp_path / f"{number}.wav", np.full(2205, 0.1, np.float32), 22050)
    columns = {
        "ids": StringColumn.of("0123"),
        "paths": StringColumn.of(f"{number}.wav" for number in range(4)),
        "root": np.zeros(4, np.uint8),
        "line": np.zeros(4, np.int32),
        "split": np.zeros(4, np.uint8),
        "file_size": np.zeros(4, np.int64),
        "file_mtime_ns": np.zeros(4, np.int64),
        "start": np.zeros(4, np.int64),
        "num_samples": np.full(4, 2205, np.int64),
        "sample_rate": np.full(4, 22050, np.int32),
    }
    Index(columns, {}, {}, []).save(tmp_path / "index.safetensors")
    return Config(data=DataConfig(train_data=str(tmp_path))), str(tmp_path / "index.safetensors")


@pytest.fixture
def reported():
    """A pipe to report into, and what came out of it."""
    read, write = os.pipe()
    yield Reporter(write), lambda: os.read(read, 1 << 16).decode()
    os.close(read)
    os.close(write)


@pytest.mark.parametrize(
    ("signal_name", "guilty"),
    [("SIGSEGV", {1: "SIGSEGV"}), ("SIGABRT", {1: "SIGABRT"}), ("SIGKILL", {})],
)
def test_only_a_crash_of_a_fresh_decoder_convicts(
    data, tmp_path, reported, monkeypatch, signal_name, guilty
):
    monkeypatch.setenv("PYTHONPATH", f"{FAULTY}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("TANDEM_FAULTY_FILE", str(tmp_path / "1.wav"))
    monkeypatch.setenv("TANDEM_FAULTY_SIGNAL", signal_name)
    reporter, text = reported
    config, index = data
    assert find_guilty((0, 1, 2, 3), config, index, reporter) == guilty
    assert ('"convicted"' in text()) == bool(guilty)


def test_a_crash_that_had_nothing_to_do_with_the_files_convicts_nobody(data, reported):
    config, index = data
    assert find_guilty((0, 3), config, index, reported[0]) == {}
