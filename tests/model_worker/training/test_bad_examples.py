"""How many examples may be bad, counted in examples."""

import pytest

from model_worker.training.bad_examples import BadExamples
from shared.errors import TandemError
from shared.plan.exclusions import Exclusions


def test_a_run_whose_data_falls_apart_is_stopped():
    bad = BadExamples(range(5), 100, 0.05)
    bad.raise_if_too_many()
    assert bad.add(70, "b.wav: can't be read: torn.")
    with pytest.raises(
        TandemError,
        match=r"6 of 100 examples could not be read.*; the last: b\.wav: can't be read: torn\.$",
    ):
        bad.raise_if_too_many()


def test_an_example_that_is_reported_for_several_batches_counts_once():
    exclusions = Exclusions(((3, 10), (3, 5), (4, 7)))
    bad = BadExamples(exclusions.rows, 100, 0.03)
    assert not bad.add(3, "") and bad.add(9, "") and not bad.add(9, "")
    bad.raise_if_too_many()
