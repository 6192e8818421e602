"""A mistake in a user's model half reaches the launcher as one sentence with their file and line."""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from toy_task import FORM, toy_batch

from model_worker.training.built_model import built_model
from model_worker.training.step import StepSettings, TrainStep
from shared.config.settings import Config
from shared.task.registry import Task
from shared.worker.reports import PIPE_VARIABLE
from shared.worker.start import run_worker

FILE = """import keras
import tensorflow as tf
from shared.task import ModelSide


class Model(ModelSide):
    def build(self, facts):
        width = {build}
        return keras.Sequential([keras.Input((6,)), keras.layers.Dense(width)])

    def losses(self, model, batch, training, step):
        made = model(batch["x"])
        error = {error}
        return {{"loss": tf.reduce_sum(tf.square(error))}}
"""


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Trains a step of a task file as a worker does; gives its exit status and what it told."""

    def tell(**lines):
        path = tmp_path / "mine.py"
        path.write_text(FILE.format(**{"build": "3", "error": 'made - batch["y"]', **lines}))

        def work(reporter):
            task = Task.of(str(path)).model_side()(Config())
            step = TrainStep(built_model(task, None), task, FORM.signature(), StepSettings())
            step(toy_batch(0), 0, 1e-3)
            return 0

        reading, writing = os.pipe()
        monkeypatch.setenv(PIPE_VARIABLE, str(writing))
        try:
            status = run_worker(work)
        finally:
            os.close(writing)
        with os.fdopen(reading) as pipe:
            return status, [json.loads(line) for line in pipe]

    return tell


def test_a_file_without_a_mistake_is_trained(told):
    assert told() == (0, [])


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ({"build": "facts.groups"}, ("mine.py line 8 (in build): AttributeError", "the model")),
        (
            {"error": 'made - batch["why"]'},
            ("mine.py line 13 (in losses): KeyError", "the losses of a batch"),
        ),
        (
            {"error": 'tf.gather(made - batch["y"], batch["rows"] + 1)'},
            ("mine.py line 13 (in losses): InvalidArgumentError", "the losses of a batch"),
        ),
        (
            {"error": "made.numpy()"},
            ("mine.py line 13 (in losses): ", "the losses of a batch"),
        ),
    ],
    ids=["building", "tracing", "running", "numpy in a graph"],
)
def test_a_mistake_is_the_run_s_failure_and_a_sentence(told, capsys, lines, words):
    status, reports = told(**lines)
    (report,) = reports
    assert status == 2 and report["kind"] == "failure"
    for each in words:
        assert each in report["message"]
    assert "\n" not in report["message"]
    assert f"❌ {report['message']}" in capsys.readouterr().err


def test_memory_that_runs_out_in_it_is_no_mistake(told):
    status, (report,) = told(build='exec("raise MemoryError()")')
    assert status == 1 and report["kind"] == "cause" and "out of memory" in report["message"]
