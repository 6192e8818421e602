"""What a run leaves of itself for others: its state at each end, and a request to stop that it hears."""

import signal
import threading
import time

import pytest

from shared.errors import DataError
from shared.launching.run_record import RunRecord
from shared.run.directory import RunDirectory
from shared.run.event_log import Ended
from shared.status.run_state import State, look_at
from shared.status.stop_request import ask_to_stop


@pytest.fixture
def run(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.create()
    directory.config.touch()
    return directory


def record_of(run):
    return RunRecord(run, 50, time.time())


def wait_for(condition):
    until_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_it_is_preparing_then_training_then_what_it_ended_as(run):
    with record_of(run) as record:
        wait_for(lambda: look_at(run).state is State.PREPARING)
        record.training(left_out=3)
        wait_for(lambda: look_at(run).state is State.TRAINING)
        record.stopping()
        wait_for(lambda: look_at(run).state is State.STOPPING)
        record.end(Ended(time.time(), 130, "interrupted; the checkpoint is saved"))
    found = look_at(run)
    assert found.state is State.INTERRUPTED and found.status.left_out == 3


def test_what_is_only_prepared_leaves_no_status(run):
    with record_of(run):
        wait_for(run.status.exists)
    assert not run.status.exists() and look_at(run).state is State.PREPARED


@pytest.mark.parametrize(
    ("error", "state", "why"),
    [(DataError("40 of 100 rows are bad"), State.FAILED, "40 of 100 rows are bad"),
     (KeyboardInterrupt(), State.INTERRUPTED, "interrupted before training began")],
)  # fmt: skip
def test_what_breaks_off_says_why(run, error, state, why):
    with pytest.raises(type(error)), record_of(run):
        raise error
    assert (look_at(run).state, look_at(run).why) == (state, why)


def test_a_request_that_is_left_in_the_directory_is_heard_as_a_signal(run, request):
    heard = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.set())
    request.addfinalizer(lambda: signal.signal(signal.SIGTERM, before))
    with record_of(run) as record:
        ask_to_stop(run, record.status.session)
        assert heard.wait(20)
    assert not run.stop_request.exists()


def test_in_a_thread_the_request_goes_to_whoever_trains_there(run):
    heard = threading.Event()

    def train():
        with record_of(run) as record:
            record.on_stop = heard.set
            ask_to_stop(run, record.status.session)
            heard.wait(20)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert heard.is_set()
