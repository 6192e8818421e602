"""Whether the process that kept a run's status still lives."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from shared.status.presence import is_alive, own_presence


def test_this_process_lives():
    assert own_presence().pid == os.getpid()
    assert is_alive(own_presence())


def test_a_process_that_has_ended_or_only_waits_to_be_reaped_does_not_live():
    program = (
        "import json, dataclasses; from shared.status.presence import own_presence;"
        "print(json.dumps(dataclasses.asdict(own_presence())), flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    found = json.loads(child.stdout.readline())
    presence = dataclasses.replace(own_presence(), **found)
    assert is_alive(presence)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie
    assert is_alive(presence) is False
    child.communicate()
    assert is_alive(presence) is False


def test_another_process_that_was_given_the_same_number_is_another():
    assert is_alive(dataclasses.replace(own_presence(), started_ticks=1)) is False


@pytest.mark.parametrize("change", [{"boot_id": "another"}, {"pid_namespace": "pid:[1]"},
                                    {"boot_id": ""}])  # fmt: skip
def test_of_another_machine_or_container_nobody_knows(change):
    assert is_alive(dataclasses.replace(own_presence(), **change)) is None
