"""Which deviations from the CPU are rounding, and which are a device that does not compute."""

import numpy as np
import pytest

from shared.worker.beside_cpu import deviations, wrong


@pytest.fixture
def of_cpu():
    random = np.random.default_rng(1)
    pitch = np.where(random.random((4, 200)) < 0.3, random.uniform(80, 300, (4, 200)), 0.0)
    return {
        "mel": random.normal(-6, 2, (4, 200, 80)).astype(np.float32),
        "pitch": pitch.astype(np.float32),
        "lengths": np.array([200, 180, 90, 7], np.int32),
        "nothing": np.zeros(3, np.float32),
    }


def test_the_same_numbers_do_not_deviate(of_cpu):
    assert set(deviations(of_cpu, of_cpu).values()) == {0.0}
    assert wrong(deviations(of_cpu, of_cpu)) == ""


def test_rounding_and_a_frame_that_is_found_unvoiced_are_no_fault(of_cpu):
    found = {name: array.copy() for name, array in of_cpu.items()}
    found["mel"] *= 1.001  # as TensorFloat-32 rounds
    voiced = np.flatnonzero(found["pitch"])
    found["pitch"].flat[voiced[:2]] = 0.0
    assert wrong(deviations(found, of_cpu)) == ""


@pytest.mark.parametrize("name", ["mel", "pitch"])
def test_a_device_that_computes_nothing_is_wrong_also_where_most_numbers_are_zero(of_cpu, name):
    found = {**of_cpu, name: np.zeros_like(of_cpu[name])}
    said = wrong(deviations(found, of_cpu))
    assert said == f"{name} differs by 100% from what the CPU computes of the same numbers"


@pytest.mark.parametrize("value", [np.nan, np.inf, 7.0])
def test_what_is_no_number_or_should_be_zero_is_wrong(of_cpu, value):
    found = {**of_cpu, "nothing": np.full(3, value, np.float32)}
    assert wrong(deviations(found, of_cpu)).startswith("nothing differs entirely")


def test_another_shape_is_wrong(of_cpu):
    assert wrong(deviations({**of_cpu, "mel": of_cpu["mel"][:2]}, of_cpu)).startswith("mel differs")
