"""Overfitting is named where the training loss falls and the validation stands, and only there."""

import random

import pytest

from shared.diagnosis.overfitting import FitWatch

EVERY, LOGGED = 100, 10


def records(training, validation, judged_by="val_loss", noise=0.01):
    """Of a run with a validation every 100 steps; both are functions of the step."""
    chance = random.Random(0)
    for step in range(LOGGED, 1001, LOGGED):
        loss = training(step) + noise * chance.uniform(-1, 1)
        yield {"step": step, "loss": loss, "step_ms": 5.0}
        if step % EVERY == 0:
            yield {
                "step": step,
                "val_loss": 9.0,
                judged_by: validation(step),
                "judged_by": judged_by,
            }


def falling(step):
    return 2.0 - step / 1000


def falling_until_400(step):
    return 2.0 - min(step, 400) / 1000 + max(0, step - 400) / 5000


def test_a_training_loss_that_falls_while_no_validation_is_better_is_overfitting():
    found = FitWatch(records(falling, falling_until_400)).overfitting
    assert found is not None and (found.best_step, found.num_validations) == (400, 6)
    assert "no better validation since step 400 (6 in a row)" in str(found)
    assert "--max-steps 400" in found.advice and "--early-stopping" in found.advice


@pytest.mark.parametrize(
    ("training", "validation"),
    [
        pytest.param(falling, falling, id="both fall"),
        pytest.param(falling_until_400, falling_until_400, id="neither gains any more"),
        pytest.param(lambda step: 1.0, falling_until_400, id="the training stands as well"),
        pytest.param(falling, lambda step: falling(min(step, 800)), id="for two validations only"),
    ],
)
def test_a_run_that_gains_or_stands_as_a_whole_is_not(training, validation):
    assert FitWatch(records(training, validation)).overfitting is None


def test_it_is_over_as_soon_as_a_validation_is_better():
    watch = FitWatch(records(falling, falling_until_400))
    watch.add({"step": 1100, "val_loss": 0.5, "judged_by": "val_loss"})
    assert watch.overfitting is None


def test_what_judges_is_the_value_that_the_task_names():
    found = FitWatch(records(falling, falling_until_400, judged_by="val_mel")).overfitting
    assert found is not None and found.best_step == 400


def test_a_roll_back_takes_back_what_it_undid():
    watch = FitWatch(records(falling, falling_until_400))
    for step in (500, 600):
        watch.add({"step": step, "val_loss": 9.0, "val_mel": 1.0, "judged_by": "val_mel"})
    assert watch.overfitting is None  # of the seven that were after step 400, two are left


def test_fewer_losses_than_tell_their_noise_say_nothing():
    watch = FitWatch()
    for number in range(1, 9):
        watch.add({"step": number, "loss": 1.0 / number, "step_ms": 5.0})
        watch.add({"step": number, "val_loss": float(number), "judged_by": "val_loss"})
    assert watch.overfitting is None


def test_damaged_records_are_passed_over():
    damaged = [{}, {"step": "x", "val_loss": 1.0}, {"loss": None, "step_ms": 1}, {"judged_by": 7}]
    assert FitWatch(damaged).overfitting is None
