"""Workers in actors of a real cluster, with small programs in the place of data processes."""

import importlib.util
import os
import select
import signal
import textwrap
import time

import psutil
import pytest
from ray_hosts import WHY_SKIPPED

from shared.places.place import WorkerOrder
from shared.worker.reports import Cause, Phase, Placed, Progress, Said

# Three hosts of Ray on one machine are slow to start: `make test ARGS="-m long"` tries them.
pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason=WHY_SKIPPED),
    pytest.mark.long,
]

DEADLINE_S = 120  # Ray takes long to notice that a host is lost, and may ask it first
PREAMBLE = """
import os, sys, time
from shared.worker.process_guard import guard_worker
from shared.worker.reports import Reporter
guard_worker()
reporter = Reporter.from_environment()
reporter.progress(os.getpid())
"""
SERVES = PREAMBLE + "time.sleep(600)\n"


@pytest.fixture(scope="module")
def cluster(ray_hosts):
    from shared.places.ray_cluster import RayCluster

    cluster = RayCluster(ray_hosts.address)
    yield cluster
    cluster.close()


class Heard:
    """A child, and what it has told."""

    def __init__(self, place, program, log, name="data_worker-0"):
        self.reports = []
        order = WorkerOrder(name, "data", ("-c", program), {"GIVEN": "yes"}, log)
        self.child = place.start(order, lambda worker, report: self.reports.append(report))

    def until(self, condition, what):
        until_s = time.monotonic() + DEADLINE_S
        while not (found := condition()):
            assert time.monotonic() < until_s, f"{what}: {self.reports}"
            if not self.child.reader.is_closed:
                if select.select([self.child.reader.descriptor], [], [], 0.2)[0]:
                    self.child.reader.read()
        return found

    def report(self, kind):
        """The last of its kind, once there is one."""
        return self.until(lambda: [r for r in self.reports if isinstance(r, kind)], kind)[-1]

    def end(self):
        self.until(lambda: self.child.poll() is not None, "its end")
        if not self.child.reader.is_closed:
            self.child.reader.drain()
        return self.child.poll()


@pytest.fixture
def start(cluster, tmp_path):
    """Starts a program on a host of the cluster."""
    from shared.places.ray_place import RayChild

    class Place:
        def start(self, order, on_report):
            nodes = [host.node for host in cluster.hosts()]
            return RayChild(cluster, lambda say: nodes, order, on_report)

    heard = []

    def start(program, **more):
        heard.append(Heard(Place(), program, tmp_path / "log", **more))
        return heard[-1]

    yield start
    for each in heard:
        each.child.end()
        assert each.child.wait(DEADLINE_S)


def test_a_worker_on_another_host_is_told_of_like_one_that_is_here(start, tmp_path):
    program = """
    reporter.say(f"{os.environ['GIVEN']} {os.environ.get('OMP_NUM_THREADS')}")
    print("into the log")
    sys.exit(3)
    """
    heard = start(PREAMBLE + textwrap.dedent(program))
    assert heard.end() == 3
    kinds = [type(report) for report in heard.reports]
    assert kinds == [Phase, Placed, Phase, Progress, Said]
    assert heard.reports[0].name == "waiting for a host"
    assert heard.reports[-1].text == f"yes {os.environ.get('OMP_NUM_THREADS')}"
    assert "into the log" in (tmp_path / "log").read_text()


def test_a_signal_reaches_it_and_its_end_is_known(start):
    heard = start(SERVES)
    worker = psutil.Process(heard.report(Progress).count)
    heard.child.send_signal(signal.SIGSTOP)
    heard.until(heard.child.is_stopped, "that it is stopped")
    heard.child.send_signal(signal.SIGKILL)
    assert heard.end() == -signal.SIGKILL
    assert not worker.is_running()


def test_one_that_dies_with_its_actor_is_told_of_with_the_cause(start):
    heard = start(SERVES)
    worker = psutil.Process(heard.report(Progress).count)
    worker.parent().kill()
    assert heard.end() == -signal.SIGKILL
    assert heard.report(Cause) == Cause("its actor was ended", will_pass=True)
    psutil.wait_procs([worker], timeout=DEADLINE_S)
    assert not worker.is_running()


def test_one_that_no_host_has_room_for_waits_and_can_be_done_without(start):
    running = [start(SERVES, name=f"data_worker-{number}") for number in range(4)]
    for each in running:
        each.report(Progress)
    waiting = start(SERVES, name="data_worker-4")
    assert waiting.report(Phase).name == "waiting for a host"
    waiting.child.send_signal(signal.SIGTERM)
    assert waiting.end() == -signal.SIGKILL
    assert [type(report) for report in waiting.reports] == [Phase]


def test_one_on_a_host_that_is_lost_is_noticed_within_seconds(start, ray_hosts):
    both = [start(SERVES, name=f"data_worker-{number}") for number in range(2)]
    workers = [psutil.Process(each.report(Progress).count) for each in both]
    ray_hosts.lose_host_of(workers[0])
    lost_s = time.monotonic()
    lost = both[0]
    assert lost.end() == -signal.SIGKILL
    assert time.monotonic() - lost_s < 30
    assert lost.report(Cause).will_pass
    again = start(SERVES, name=lost.child.name)
    assert psutil.Process(again.report(Progress).count).is_running()
    ray_hosts.mend()
