"""A fake GPU's share of the cores, and the threads that do not count as its work."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.devices import cores


def in_a_thread(work):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@pytest.mark.parametrize("role", ["data", "model"])
def test_work_keeps_to_its_share_and_what_is_freed_goes_anywhere(role, monkeypatch):
    monkeypatch.setattr(cores, "_all_cores", set())
    everywhere = os.sched_getaffinity(0)

    def freed():
        cores.free_this_thread()
        return os.sched_getaffinity(0)

    def worker():
        count = cores.pin_to_share(role)
        return count, os.sched_getaffinity(0), in_a_thread(freed), os.sched_getaffinity(0)

    count, pinned, helper, still = in_a_thread(worker)
    assert pinned == still == set(cores.share_of(role, sorted(everywhere))) and count == len(pinned)
    assert helper == everywhere


def test_the_two_shares_are_apart_where_there_are_two_cores():
    assert cores.share_of("data", [0, 1, 2]) == [0] and cores.share_of("model", [0, 1, 2]) == [1, 2]
    assert cores.share_of("data", [4]) == cores.share_of("model", [4]) == [4]


def test_without_a_share_nothing_is_freed(monkeypatch):
    monkeypatch.setattr(cores, "_all_cores", set())
    before = os.sched_getaffinity(0)
    cores.free_this_thread()
    assert os.sched_getaffinity(0) == before
