"""What XLA compiles of a step: by what was asked, by the device, by a trial that leaves no trace."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from toy_task import FORM, OneLoss, ToyGan, toy, toy_batch

from model_worker.training.compiling import Trial, kept_trial, tried, without_trial
from model_worker.training.state import counters_of, groups_of
from model_worker.training.step import Compiled, StepSettings, TrainStep

NOTHING, UPDATE, WHOLE = Compiled


def make_step(task=OneLoss, **settings):
    side, model = toy(task)
    return TrainStep(model, side, FORM.signature(), StepSettings(**settings))


def arrays_of(step):
    return {
        (group, name): array
        for group, each in groups_of(step).items()
        for name, array in each.items()
    }


def trial_of(step_ms, first_s):
    return Trial(*(dict(zip(Compiled, each, strict=True)) for each in (step_ms, first_s)))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (("on", "cpu", False, 1), WHOLE),
        (("off", "gpu", False, 1), NOTHING),
        (("auto", "cpu", False, 1), NOTHING),
        (("auto", "fake", False, 1), NOTHING),
        (("auto", "gpu", True, 1), UPDATE),
        (("auto", "gpu", False, 2), UPDATE),
        (("auto", "gpu", False, 1), None),
    ],
)
def test_only_one_gpu_whose_weights_need_not_be_the_same_again_asks_for_a_trial(asked, expected):
    assert without_trial(*asked) is expected


def test_a_long_run_compiles_what_a_short_one_does_not():
    trial = trial_of(step_ms=(30.0, 20.0, 15.0), first_s=(1.0, 11.0, 50.0))
    assert trial.best(num_steps=500, num_shapes=8) is NOTHING
    assert trial.best(num_steps=20_000, num_shapes=8) is UPDATE
    assert trial.best(num_steps=20_000, num_shapes=1) is WHOLE
    assert trial.best(num_steps=1_000_000, num_shapes=8) is WHOLE
    assert trial.steps_in(60.0) == 4000
    assert "20.0 ms with the optimizer compiled" in trial.in_words(UPDATE)


def test_what_could_not_be_compiled_is_not_chosen_nor_named():
    trial = trial_of(step_ms=(30.0, 20.0, math.inf), first_s=(1.0, 5.0, math.inf))
    assert trial.best(1e9, 1) is UPDATE
    assert "all compiled" not in trial.in_words(UPDATE)


@pytest.mark.parametrize("task", [OneLoss, ToyGan])
def test_a_trial_leaves_the_step_as_it_was(task):
    step = make_step(task, grad_accum=2)
    for number in range(2):
        step(toy_batch(number), 0, 1e-3, is_last=number == 1)
    before, counters = arrays_of(step), counters_of(step)
    trial = tried(step, toy_batch(7), 2)
    after = arrays_of(step)
    assert before.keys() == after.keys() and counters_of(step) == counters
    assert [name for name in before if not np.array_equal(before[name], after[name])] == []
    assert all(0 < ms < math.inf for ms in trial.step_ms.values())
    for number in range(2):
        step(toy_batch(number), 1, 1e-3, is_last=number == 1)
    assert step.why_it_broke() == "" and int(step.num_applied) == 2


def test_where_xla_fails_the_other_ways_are_tried_all_the_same(monkeypatch):
    step = make_step()
    compile_as = step.compile

    def fails_whole(compiled):
        compile_as(compiled)
        if compiled is WHOLE:
            step._functions = (raising,)

    def raising(*_):
        raise tf.errors.InternalError(None, None, "libdevice not found")

    monkeypatch.setattr(step, "compile", fails_whole)
    trial = tried(step, toy_batch(1), 1)
    assert trial.step_ms[WHOLE] == math.inf and trial.step_ms[UPDATE] < math.inf


def test_a_trial_is_made_once_for_a_machine_and_a_model(tmp_path):
    trial, made = trial_of((3.0, 2.0, math.inf), (1.0, 5.0, math.inf)), []

    def make():
        made.append(1)
        return trial

    assert kept_trial(tmp_path, {"device": "a"}, None) is None
    assert kept_trial(tmp_path, {"device": "a"}, make) == trial
    assert kept_trial(tmp_path, {"device": "a"}, make) == trial and len(made) == 1
    assert kept_trial(tmp_path, {"device": "b"}, make) == trial and len(made) == 2
    for damaged in tmp_path.iterdir():
        damaged.write_text('{"step_ms": {}}')
    assert kept_trial(tmp_path, {"device": "a"}, make) == trial and len(made) == 3
    assert kept_trial(None, {"device": "a"}, make) == trial and len(made) == 4
