"""The learning rate and the averaging over a run."""

import pytest

from model_worker.training.schedule import Schedule


def test_the_rate_rises_to_its_peak_and_falls_to_nearly_nothing():
    schedule = Schedule(0.01, 1000)
    rates = [schedule.rate(step) for step in range(1000)]
    peak = rates.index(max(rates))
    assert max(rates) == pytest.approx(0.01)
    assert peak == 39
    assert rates[:peak] == sorted(rates[:peak])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[-1] == pytest.approx(0.0001)


def test_a_warm_up_that_is_given_is_kept():
    assert Schedule(1.0, 1000, warmup_steps=200).rate(99) == pytest.approx(0.5)


def test_a_budget_in_minutes_is_fitted_until_four_fifths_of_it():
    schedule = Schedule(1.0, None)
    schedule.fit(step=100, elapsed_s=30.0, remaining_s=90.0, step_s=0.1)
    assert schedule.total_steps == 1000
    schedule.fit(step=850, elapsed_s=110.0, remaining_s=10.0, step_s=0.01)
    assert schedule.total_steps == 1000


def test_a_length_that_is_given_is_never_changed():
    schedule = Schedule(1.0, 500)
    schedule.fit(step=100, elapsed_s=30.0, remaining_s=90.0, step_s=0.1)
    schedule.restore(77)
    assert schedule.total_steps == 500


def test_a_resumed_run_continues_the_fitted_curve():
    schedule = Schedule(1.0, None)
    schedule.restore(1234)
    assert schedule.total_steps == 1234


def test_averages_look_back_over_a_share_of_the_run():
    assert Schedule(1.0, 1000).ema_decay() == pytest.approx(1 - 1 / 70)
    assert Schedule(1.0, 10**6).ema_decay() == pytest.approx(1 - 1 / 2000)
    assert 0 < Schedule(1.0, 1).ema_decay() < 1


def test_a_budget_in_minutes_is_fitted_to_no_more_steps_than_the_data_is_good_for():
    lengths = []
    for minutes in (1, 5, 20, 100, 1000):
        schedule = Schedule(1.0, None, most_steps=3000)
        schedule.fit(step=100, elapsed_s=10.0, remaining_s=60.0 * minutes, step_s=0.2)
        lengths.append((schedule.total_steps, schedule.leaves_time))
    assert lengths == [(400, False), (1600, False), (3000, True), (3000, True), (3000, True)]
    by_steps = Schedule(1.0, 5000, most_steps=3000)
    by_steps.fit(step=100, elapsed_s=10.0, remaining_s=60.0, step_s=0.2)
    assert by_steps.total_steps == 5000 and not by_steps.leaves_time


def test_the_rate_has_fallen_to_its_end_where_the_data_ends_a_run():
    schedule = Schedule(1.0, None, most_steps=3000)
    schedule.fit(step=100, elapsed_s=10.0, remaining_s=6000.0, step_s=0.2)
    assert schedule.rate(2999) == pytest.approx(0.01)
