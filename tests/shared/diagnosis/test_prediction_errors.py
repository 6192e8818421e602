"""Where a GPU was other than predicted, in words."""

import pytest

from shared.diagnosis.prediction_errors import memory_error, model_errors


@pytest.mark.parametrize("allocated_mb", [None, 1000, 1140, 860])
def test_memory_that_is_about_what_was_predicted_is_no_error(allocated_mb):
    assert memory_error("small", 1000, allocated_mb) == ""


@pytest.mark.parametrize("allocated_mb", [1200, 700])
def test_memory_that_is_far_from_it_is_told_with_both_figures(allocated_mb):
    said = memory_error("small", 1000, allocated_mb)
    assert said == (
        f"small: 1,000 MB were predicted for a step, and TensorFlow took {allocated_mb:,} MB"
    )


def test_only_figures_that_are_known_and_far_from_the_model_are_told():
    found = {"kernels": 1900.0, "busy_ms": 10.0, "step_ms": 30.0}
    modelled = {"kernels": 1860.0, "busy_ms": 7.0, "copies_to_host": 0.0, "other": 3.0}
    assert model_errors("small", found, modelled) == ["small: busy ms 10, modelled 7"]
    assert model_errors("small", found, {}) == []
