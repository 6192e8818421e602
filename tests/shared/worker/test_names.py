"""Names of workers tell their role, whoever made them."""

import pytest

from shared.worker.names import DATA_WORKER, MODEL_WORKER, Role, number_of, role_of, worker_name


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("number", [0, 1, 12])
def test_a_name_tells_the_role_and_number_that_it_was_made_of(role, number):
    name = worker_name(role, number)
    assert (role_of(name), number_of(name)) == (role, number)


def test_the_only_one_of_its_role_needs_no_number():
    assert (role_of(MODEL_WORKER), number_of(MODEL_WORKER)) == (Role.MODEL, 0)
    assert (role_of(DATA_WORKER), number_of(DATA_WORKER)) == (Role.DATA, 0)


@pytest.mark.parametrize("name", ["", "my-host-123-ab", "data_worker_of_mine", "the data_worker-1"])
def test_a_name_that_a_person_gave_tells_no_role(name):
    assert role_of(name) is None
