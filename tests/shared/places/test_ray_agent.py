"""The agent of a worker, without Ray: in a process of its own, as it ends that."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]

# Asks the agent as a place does, and prints what it hears; then no more, if it is told so.
ASKS = """
import json, os, sys, time
from pathlib import Path
from shared.places.ray_agent import Agent
from shared.places.place import WorkerOrder
log, program, lease_s, goes_quiet = sys.argv[1:]
os.environ.update(RAY_SECRET="x", OMP_NUM_THREADS="1")
agent = Agent(float(lease_s))
order = WorkerOrder("w", "data", ("-c", program), {"GIVEN": "yes"}, Path(log), keys="the keys")
try:
    host, pid = agent.start(order, 5.0)
except OSError as error:
    print(json.dumps({"failed": error.strerror}), flush=True)
    os._exit(0)
print(json.dumps({"pid": pid}), flush=True)
seen, status = 0, None
while status is None:
    news = agent.news(seen, 1.0)
    for line in news.lines[seen - news.first:]:
        print(line.decode().strip(), flush=True)
    seen = news.first + len(news.lines)
    status = news.status
    if goes_quiet == "yes" and seen:
        time.sleep(600)
print(json.dumps({"status": status, "reading": news.reading}), flush=True)
os._exit(0)
"""
WORKER = """
import os, sys, time
from shared.worker.process_guard import guard_worker
from shared.worker.reports import Reporter
guard_worker()
reporter = Reporter.from_environment()
"""


@pytest.fixture
def ask(tmp_path):
    """Starts an agent whose worker is this program."""
    started = []

    def start(program, lease_s=60.0, goes_quiet="no", log=None):
        command = [sys.executable, "-c", ASKS, str(log or tmp_path / "log"),
                   WORKER + textwrap.dedent(program), str(lease_s), goes_quiet]  # fmt: skip
        started.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        )  # fmt: skip
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()


def lines_of(agent):
    out, _ = agent.communicate(timeout=60)
    return [json.loads(line) for line in out.splitlines()]


def test_reports_and_the_exit_status_of_the_worker_are_told(ask, tmp_path):
    program = """
    reporter.progress(7)
    started_s = float(os.environ["TANDEM_STARTED_AT"])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
    keys = open(sys.argv[sys.argv.index("--keys") + 1]).read()
    own = [name for name in os.environ if name.startswith(("RAY_", "OMP_"))]
    reporter.say(f"{os.environ['GIVEN']} {keys} {own} {5 <= age_s < 60}")
    sys.exit(3)
    """
    pid, progress, said, end = lines_of(ask(program))
    assert pid["pid"] > 0 and progress == {"kind": "progress", "count": 7}
    assert said["text"] == "yes the keys [] True"
    assert end == {"status": 3, "reading": []}
    assert "yes the keys" in (tmp_path / "log").read_text()


def test_a_signal_that_ends_the_worker_is_told(ask):
    *_, end = lines_of(ask("os.kill(os.getpid(), 11)"))
    assert end["status"] == -signal.SIGSEGV


def test_a_worker_that_can_not_be_started_is_told(ask, tmp_path):
    assert lines_of(ask("", log=tmp_path)) == [{"failed": "Is a directory"}]


def test_an_agent_that_nobody_asks_any_more_ends_its_worker_and_itself(ask):
    agent = ask("reporter.progress(1)\ntime.sleep(600)", lease_s=1.0, goes_quiet="yes")
    worker = psutil.Process(json.loads(agent.stdout.readline())["pid"])
    assert agent.wait(60) == 0
    assert not worker.is_running()


def test_a_worker_dies_with_its_agent(ask):
    agent = ask("reporter.progress(1)\ntime.sleep(600)", goes_quiet="yes")
    worker = psutil.Process(json.loads(agent.stdout.readline())["pid"])
    agent.stdout.readline()  # it has guarded itself
    agent.kill()
    psutil.wait_procs([worker], timeout=60)
    assert not worker.is_running()
