"""Random numbers that are hashes: the same everywhere, spread evenly."""

import numpy as np

from shared.hashing import as_uniform, hash_counters


def test_the_hashes_are_the_same_on_every_platform():
    assert hash_counters(1, 2, 3, np.arange(2)).tolist() == [
        8946099157182655218,
        3802744409056513856,
    ]


def test_another_seed_purpose_or_context_gives_other_hashes():
    counters = np.arange(1000)
    found = [
        hash_counters(*each, counters) for each in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2))
    ]
    assert len(np.unique(np.concatenate(found))) == 4000


def test_uniform_numbers_are_spread_over_0_to_1():
    numbers = as_uniform(hash_counters(7, 0, 0, np.arange(10_000)))
    assert numbers.min() >= 0 and numbers.max() < 1
    share, _ = np.histogram(numbers, 10, (0, 1))
    assert share.min() > 850 and share.max() < 1150
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.05
