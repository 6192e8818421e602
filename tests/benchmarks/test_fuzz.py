"""The short version of benchmarks/fuzz.py: the same targets, a few thousand messages each."""

import logging
import random

import fuzz
import pytest
from fuzz_messages import damaged_message

from shared.errors import ProtocolError
from shared.stream import codec


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_hostile_messages_break_nothing_and_some_work_is_done_all_the_same(name):
    logging.disable(logging.WARNING)
    try:
        make, _ = fuzz.TARGETS[name]
        step = make(random.Random(5))
        assert sum(step() for _ in range(3000)) > 5
    finally:
        logging.disable(logging.NOTSET)


def test_most_damaged_messages_are_really_damaged():
    rng, num_refused = random.Random(6), 0
    for _ in range(500):
        try:
            codec.decode(damaged_message(rng))
        except ProtocolError:
            num_refused += 1
    assert 300 < num_refused < 500


def test_the_same_seed_makes_the_same_messages():
    first, second = random.Random(7), random.Random(7)
    for _ in range(50):
        assert damaged_message(first) == damaged_message(second)
