"""How a run is, from its directory alone."""

import dataclasses
import json
import signal
import subprocess
import sys
import threading

import pytest

from shared.errors import InputError
from shared.run.directory import RunDirectory
from shared.run.event_log import Ended, EventLog, Started
from shared.run.typed_lines import encode
from shared.status.run_state import SILENT_S, State, look_at, the_run
from shared.status.status_file import StatusWriter, read_status
from shared.status.status_keeper import StatusKeeper
from shared.status.stop_request import ask_to_stop, is_asked_to_stop
from shared.status.summary import runs_below, summary_of
from shared.status.watched import Watched
from shared.worker.reports import Metrics, Outlook

NOW_S = 1_000_000.0
OUTLOOK = Outlook(0.5, 10.0, 200, False, 100.0, 2.0, "waiting for: nothing", False)


@pytest.fixture
def run(tmp_path):
    directory = RunDirectory(tmp_path / "runs" / "mine")
    directory.create()
    directory.config.touch()
    return directory


@pytest.fixture
def keeper():
    keeper = StatusKeeper(50, NOW_S - 60, now=lambda: NOW_S)
    keeper.training(0)
    return keeper


def write(run, status, **presence):
    presence = dataclasses.replace(status.presence, **presence)
    run.status.write_bytes(encode(dataclasses.replace(status, presence=presence)))


def test_what_is_written_is_read_again(run, keeper):
    keeper.say("✅ Model training starting now")
    keeper.report("model_worker", Metrics({"step": 7, "loss": 1.5, "queue_depth": 3}, OUTLOOK))
    status = keeper.status()
    write(run, status)
    assert read_status(run) == status
    assert status.outlook == OUTLOOK and status.loss == 1.5 and status.queue_depth == 3


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"kind": "runstatus"}', b"\xff\x00"])
def test_a_damaged_status_is_none(run, content):
    run.status.write_bytes(content)
    assert read_status(run) is None
    assert look_at(run).state is State.PREPARED


def test_what_somebody_else_wrote_steers_no_terminal(run, keeper):
    keeper.say("\x1b[2J\x9b31m\x7f it is “well”\tand\nwell 🏁")
    write(run, keeper.status())
    shown = read_status(run).lines[-1].text
    assert not any(
        (ord(each) < 32 and each not in "\t\n") or 127 <= ord(each) < 160 for each in shown
    )
    assert "it is “well”\tand\nwell 🏁" in shown
    raw = run.status.read_bytes().replace(b"\\u001b", b"\\u001B").replace(b"\\u009b", b"\xc2\x9b")
    run.status.write_bytes(raw)
    assert "\x1b" not in read_status(run).lines[-1].text
    assert "\x9b" not in read_status(run).lines[-1].text
    EventLog(run.events).add(Ended(NOW_S + 9, 1, "bad \x1b]0;title\x07"))
    write(run, keeper.status(), started_ticks=1)
    assert look_at(run).why == "bad ?]0;title?"


def test_a_run_goes_on_while_its_process_lives_and_says_what_it_does(run, keeper):
    keeper.preparing("looking", 1, 2)
    write(run, keeper.status())
    assert look_at(run).state is State.PREPARING
    keeper.training(0)
    write(run, keeper.status())
    assert look_at(run).state is State.TRAINING
    keeper.stopping()
    write(run, keeper.status())
    assert look_at(run).state is State.STOPPING


@pytest.mark.parametrize(
    ("code", "state"), [(0, State.FINISHED), (130, State.INTERRUPTED), (1, State.FAILED)]
)
def test_an_end_that_was_told_is_its_end(run, keeper, code, state):
    keeper.end(Ended(NOW_S, code, "because"))
    write(run, keeper.status(), started_ticks=1)
    found = look_at(run)
    assert found.state is state and found.ended.cause == "because"


def test_a_run_whose_process_was_killed_has_failed_and_says_how_to_go_on(run, keeper):
    write(run, keeper.status(), started_ticks=1)
    found = look_at(run)
    assert found.state is State.FAILED and not found.state.is_going_on
    assert "was killed; the same command goes on" in found.why


def test_events_tell_of_an_end_that_the_status_could_not(run, keeper):
    write(run, keeper.status(), started_ticks=1)
    events = EventLog(run.events)
    events.add(Started(NOW_S - 59))
    events.add(Ended(NOW_S + 1, 130, "interrupted; the checkpoint is saved"))
    assert look_at(run).state is State.INTERRUPTED
    keeper.say("a later start")
    later = dataclasses.replace(keeper.status(), started_s=NOW_S + 5)
    write(run, later, started_ticks=1)  # killed; the end before it was not its own
    assert look_at(run).state is State.FAILED


def test_on_another_host_it_goes_on_for_as_long_as_it_is_heard_of(run, keeper):
    write(run, keeper.status(), boot_id="another", host="node7")
    assert look_at(run, now_s=NOW_S + SILENT_S - 1).state is State.TRAINING
    found = look_at(run, now_s=NOW_S + SILENT_S + 1)
    assert found.state is State.FAILED and "on node7, for 0:01:31" in found.why
    assert look_at(run, now_s=NOW_S - 3600).state is State.TRAINING  # its clock is ahead


def test_who_watches_needs_no_clock_of_another_host(run):
    clock = [0.0]
    keeper = StatusKeeper(50, NOW_S, now=lambda: NOW_S)  # years behind
    keeper.training(0)
    watched = Watched(run, now=lambda: clock[0])
    write(run, keeper.status(), boot_id="another")
    assert watched.look().state is State.FAILED
    write(run, keeper.status(), boot_id="another")  # it moves: so it lives
    assert watched.look().state is State.TRAINING
    clock[0] += SILENT_S + 1
    assert watched.look().state is State.FAILED


def test_without_a_status_the_events_are_what_is_known(run):
    assert look_at(run).state is State.PREPARED
    events = EventLog(run.events)
    events.add(Started(1.0))
    assert look_at(run).state is State.FAILED
    events.add(Ended(2.0, 0, "finished"))
    assert look_at(run).state is State.FINISHED


def test_what_is_no_run_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match="there is no such folder"):
        the_run(str(tmp_path / "nope"))
    with pytest.raises(InputError, match="no config.toml"):
        the_run(str(tmp_path))


def test_the_writer_writes_until_it_is_closed_and_hears_a_request_for_its_own_session(run, keeper):
    asked = threading.Event()
    session = keeper.status().session
    ask_to_stop(run, "of another start")
    assert not is_asked_to_stop(run, session)
    writer = StatusWriter(run, keeper.status, asked.set)
    ask_to_stop(run, session)
    assert asked.wait(10)
    keeper.end(Ended(NOW_S, 0, "finished"))
    writer.close()
    assert read_status(run).ended is not None
    assert [path.name for path in run.path.glob(".status*")] == []


def test_a_launcher_that_is_killed_leaves_a_status_that_is_seen_as_dead(run):
    program = (
        "import sys; from shared.run.directory import RunDirectory;"
        "from shared.status.status_file import StatusWriter;"
        "from shared.status.status_keeper import StatusKeeper;"
        "keeper = StatusKeeper(5, 0.0); keeper.training(0);"
        "run = RunDirectory(sys.argv[1]); StatusWriter(run, keeper.status, print);"
        "print('up', flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(run.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    child.stdout.readline()
    watched = Watched(run)
    while read_status(run) is None:
        assert child.poll() is None
    assert watched.look().state is State.TRAINING
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert watched.look().state is State.FAILED


def test_a_summary_has_the_last_step_what_is_left_and_the_disk(run, keeper):
    records = [
        {"step": n, "step_ms": 1.0, "loss": 2.0 - n / 100, "time": NOW_S} for n in range(1, 11)
    ]
    lines = [*records, {"step": 10, "val_loss": 1.25, "judged_by": "val_loss"}]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 11, "st')
    found = summary_of(run)
    assert (found.step, found.loss, found.val_loss, found.left_s) == (10, 1.9, 1.25, None)
    assert found.disk_bytes >= 4096
    keeper.report("model_worker", Metrics({**records[-1], "step": 12}, OUTLOOK))
    write(run, keeper.status())
    found = summary_of(run)
    assert found.state is State.TRAINING and found.step == 12 and found.total_steps == 200
    assert found.pid == keeper.status().presence.pid


def test_runs_are_found_below_a_folder_and_not_within_each_other(run, tmp_path):
    deeper = tmp_path / "runs" / "group" / "a"
    for path in (deeper, run.path / "inside", tmp_path / "runs" / ".hidden"):
        path.mkdir(parents=True)
        (path / "config.toml").touch()
    assert list(runs_below(tmp_path / "runs")) == [deeper, run.path]
    assert list(runs_below(run.path)) == [run.path]
