"""The name of a data process that was started by hand."""

import os
import platform

import pytest

from data_worker.__main__ import _name_by_hand


def test_no_two_processes_have_one_name_even_where_their_pids_are_equal():
    assert len({_name_by_hand() for _ in range(20)}) > 15
    assert _name_by_hand().startswith(f"{platform.node()[:32]}-{os.getpid()}-")


@pytest.mark.parametrize("host", ["x" * 64, "", "gpu-7.example.org"])
def test_the_name_is_one_that_a_model_process_takes(monkeypatch, host):
    monkeypatch.setattr(platform, "node", lambda: host)
    name = _name_by_hand()
    assert name.isprintable() and len(name) <= 64 and not name.startswith("-")
