"""The launcher's loop with real children: small programs in the place of the two workers."""

import gc
import os
import signal
import textwrap

import pytest

from shared.config.settings import Config, DataConfig, RunConfig
from shared.devices.gpus import Placement
from shared.launching.training_run import TrainingRun
from shared.places.local_place import WorkerProcess
from shared.places.place import WorkerOrder
from shared.run.directory import RunDirectory
from shared.worker import child_environment
from shared.worker.contract import STANDING_BY
from shared.worker.reports import LineKind, Progress

DATA, SPARE, MODEL = "data_worker-0", "data_spare-0", "model_worker"

# Does what a worker of the launcher does, without what it is for.
PREAMBLE = """
import os, sys, time
from shared.worker.process_guard import guard_worker
from shared.worker.reports import Busy, Reporter
guard_worker()
reporter = Reporter.from_environment()
"""
SERVES = """
if "--spare" in sys.argv:
    reporter.phase("standing by", 60)
while True:
    reporter.progress(1)
    time.sleep(0.05)
"""
ENDS_WHEN_TOLD = """
reporter.phase("training", 60)
while not os.path.exists("done"):
    reporter.progress(1)
    time.sleep(0.05)
"""


@pytest.fixture
def launch(tmp_path, monkeypatch):
    """A run whose workers are these programs; with everything that was said and reported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(child_environment.ROOT))
    monkeypatch.setattr(child_environment, "ROOT", tmp_path)  # where a worker is looked for first
    directory = RunDirectory(tmp_path / "run")
    directory.create()

    def make(
        data_worker=SERVES,
        model=ENDS_WHEN_TOLD,
        on_report=lambda worker, report: None,
        on_event=lambda event: None,
        **run,
    ):
        for name, program in (("data_worker", data_worker), ("model_stub", model)):
            (tmp_path / f"{name}.py").write_text(PREAMBLE + textwrap.dedent(program))
        config = Config(DataConfig(train_data="x"), run=RunConfig(run_id="r", **run))
        said = []

        def say(text, kind=LineKind.STORY):
            said.append(text)

        training_run = TrainingRun(
            config, directory, Placement(False, (), None), say, 0.0, on_report,
            model_command=("model_stub",), on_event=on_event,
        )  # fmt: skip
        return training_run, said

    return make


HANGS_ONCE = """
reporter.phase("serving", 0.5)
is_replacement = "TANDEM_RESTARTED" in os.environ
while True:
    reporter.tell(Busy(0.0))
    if is_replacement:
        reporter.progress(1)
    time.sleep(0.05)
"""


def end_the_run():
    open("done", "w").close()


def kill(run, *names):
    """Kill workers, and come back when they are dead and nobody has asked for their status."""
    for name in names:
        pid = run._children[name].pid
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_a_data_worker_and_its_spare_may_end_at_once(launch):
    lives = []

    def on_report(worker, report):
        pid = run._children[worker].pid if worker in run._children else None
        if worker == DATA and pid not in lives:
            lives.append(pid)
        if worker == SPARE and getattr(report, "name", "") == STANDING_BY and len(lives) == 1:
            kill(run, DATA, SPARE)
        if len(lives) == 2:
            end_the_run()

    events = []
    run, said = launch(on_report=on_report, on_event=events.append, spare_data_worker=True)
    assert run.watch().finished, said
    # The spare that takes over is dead too, which is not known yet.
    assert [(event.worker, event.by_spare) for event in events] == [(DATA, True), (DATA, False)]
    assert {event.cause for event in events} == {f"{DATA}: killed by SIGKILL"}
    assert sum("killed by SIGKILL" in line for line in said) == 2


def test_a_worker_that_tells_much_but_does_nothing_is_replaced_and_its_stack_is_in_its_log(
    launch, tmp_path
):
    def on_report(worker, report):
        if worker == DATA and isinstance(report, Progress):
            end_the_run()

    run, said = launch(HANGS_ONCE, on_report=on_report)
    assert run.watch().finished, said
    assert any("no progress" in line and "while serving; its stack is in" in line for line in said)
    assert any(line.endswith("while serving; starting it again") for line in said)
    assert "data_worker.py" in (tmp_path / "run" / f"{DATA}.log").read_text()


def test_a_worker_that_can_not_be_started_is_tried_again(launch, tmp_path):
    in_the_way = tmp_path / "run" / f"{DATA}.log"
    in_the_way.mkdir()

    def on_report(worker, report):
        if worker == MODEL and in_the_way.is_dir():
            in_the_way.rmdir()
        if worker == DATA:
            end_the_run()

    run, said = launch(on_report=on_report)
    assert run.watch().finished, said
    words = f"⚠️  {DATA}: it could not be started (Is a directory); starting it again"
    assert 1 <= said.count(words) <= 3


def test_what_could_not_be_started_leaves_no_descriptor(tmp_path):
    gc.collect()
    descriptors = os.listdir("/proc/self/fd")
    with pytest.raises(IsADirectoryError):
        order = WorkerOrder("w", "data", ("-c", ""), {}, tmp_path)
        WorkerProcess(order, lambda worker, report: None)
    assert os.listdir("/proc/self/fd") == descriptors
