"""Data processes on the hosts of a Ray cluster: the same audit and weights, whatever is killed there.

Three raylets on this machine are the hosts.
"""

import importlib.util
import signal
import sys

import psutil
import pytest
from ray_hosts import WHY_SKIPPED
from ray_namespaces import RayNamespaces, why_not_here

GONE_WITHIN_S = 20

# Three hosts of Ray on one machine are slow to start: `make test ARGS="-m long"` tries them.
pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason=WHY_SKIPPED),
    pytest.mark.long,
]


def launch(runs, name, hosts, *flags, before=(), **environment):
    """A run like those that others compare with, its data processes on other hosts."""
    given = list(runs.settings)
    for flag in ("--data-gpu", "--model-gpu"):
        at = given.index(flag)
        del given[at : at + 2]
    return runs.python(
        *before, "launcher.py", "--run-dir", str(runs.folder / name), "--train-data", str(runs.corpus),
        *given, "--engine", "ray", "--ray-address", hosts.address, *flags,
        **environment,
    )  # fmt: skip


def data_workers(runs, name):
    """The data processes of a run, wherever they live."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "data_worker" in words and str(runs.folder / name) in words:
            found.append(process)
    return found


def test_a_run_ends_in_the_same_bits_though_an_actor_and_then_a_host_are_lost(
    ray_hosts, runs, undisturbed
):
    # So few batches ahead that each data process is needed to the end.
    command = launch(runs, "mine", ray_hosts, "--data-workers", "2", "--buffer-size", "2",
                     "--max-steps", "14", "--samples", "2", "--report")  # fmt: skip
    runs.wait_until(lambda: "Ray: 3 of 3 hosts can be used" in command.text, "the hosts")
    runs.wait_for_log("mine", "model_worker", "data process data_worker-")
    first = runs.wait_until(lambda: data_workers(runs, "mine"), "a data process")[0]
    first.parent().kill()
    runs.wait_until(lambda: "its actor was ended; starting it again" in command.text, "its loss")
    other = runs.wait_until(lambda: data_workers(runs, "mine"), "a data process")[0]
    ray_hosts.lose_host_of(other)
    assert command.wait() == 0, command.text + runs.logs("mine")
    ray_hosts.mend()
    assert runs.audit("mine") == undisturbed.audit("run")
    assert runs.weights("mine") == undisturbed.weights("run")
    assert data_workers(runs, "mine") == [] and runs.leftovers() == []
    assert not list((runs.folder / "mine").glob(".host-check*"))


def test_nothing_of_a_run_is_left_on_any_host_when_its_launcher_is_killed(ray_hosts, runs):
    command = launch(runs, "mine", ray_hosts, "--max-steps", "5000")
    worker = runs.wait_until(lambda: data_workers(runs, "mine"), "a data process")[0]
    left = [worker.pid, worker.ppid(), command.child("model_worker")]
    command.signal(signal.SIGKILL)
    runs.wait_for_end(left, GONE_WITHIN_S)
    assert data_workers(runs, "mine") == []


@pytest.fixture
def namespaces():
    if why := why_not_here():
        pytest.skip(why)
    hosts = RayNamespaces()
    yield hosts
    hosts.close()


IN_NAMESPACE = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"


def test_a_host_whose_link_is_cut_is_done_without_and_ends_what_it_had(
    namespaces, runs, undisturbed
):
    """The host lives on, and so does what runs there, until nobody has asked for it for a while."""
    words = ["-c", IN_NAMESPACE, *namespaces.command(0, sys.executable)]
    command = launch(runs, "mine", namespaces, "--data-workers", "2", "--buffer-size", "2",
                     "--max-steps", "14", "--samples", "2", "--report",
                     before=words, **namespaces.environment)  # fmt: skip
    runs.wait_until(lambda: "Ray: 3 of 3 hosts can be used" in command.text, "the hosts")
    both = runs.wait_until(
        lambda: len(found := data_workers(runs, "mine")) == 2 and found, "both data processes"
    )
    namespaces.cut(1)
    assert command.wait() == 0, command.text + runs.logs("mine")
    assert runs.audit("mine") == undisturbed.audit("run")
    assert runs.weights("mine") == undisturbed.weights("run")
    runs.wait_for_end([each.pid for each in both], 2 * GONE_WITHIN_S)
    namespaces.mend(1)
    assert data_workers(runs, "mine") == []
