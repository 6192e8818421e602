"""A file that crashes its decoder is convicted; nothing else is."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from data_worker.batches.crash_trial import find_guilty
from shared.worker.reports import Reporter

FAULTY = Path(__file__).resolve().parents[2] / "faulty"


@pytest.fixture
def arguments_of(tmp_path):
    """Three recordings and one that is gone, as `load_utterance` is asked for them."""
    for number in range(3):
        soundfile.write(tmp_path / f"{number}.wav", np.full(2205, 0.1, np.float32), 22050)
    return lambda row: (tmp_path / f"{row}.wav", 0, 2205, 22050, True)


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
    arguments_of, reported, monkeypatch, signal_name, guilty
):
    monkeypatch.setenv("PYTHONPATH", f"{FAULTY}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("TANDEM_FAULTY_FILE", str(arguments_of(1)[0]))
    monkeypatch.setenv("TANDEM_FAULTY_SIGNAL", signal_name)
    reporter, text = reported
    assert find_guilty((0, 1, 2, 3), arguments_of, reporter) == guilty
    assert ('"convicted"' in text()) == bool(guilty)


def test_a_crash_that_had_nothing_to_do_with_the_files_convicts_nobody(arguments_of, reported):
    assert find_guilty((0, 3), arguments_of, reported[0]) == {}
