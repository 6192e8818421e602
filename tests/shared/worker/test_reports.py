"""Reports to a launcher that does not read for a while: workers go on, and what matters arrives."""

import json
import os
import threading

import pytest

from shared.worker import reports as reporting
from shared.worker.reports import Reporter

DEADLINE_S = 60.0


@pytest.fixture
def pipe():
    """A reporter on a pipe as the launcher makes it, and the end that is read."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    yield Reporter(write), read
    os.close(read)
    os.close(write)


def fill(reporter):
    """Report until nothing more goes in."""
    for number in range(100_000):
        reporter.progress(number)
    assert reporter._descriptor is not None


def take_all(read):
    """Everything that is in the pipe, which must be whole lines; perhaps none."""
    os.set_blocking(read, False)
    content = b""
    while True:
        try:
            content += os.read(read, 1 << 20)
        except BlockingIOError:
            os.set_blocking(read, True)
            break
    assert not content or content.endswith(b"\n")
    return [json.loads(line) for line in content.splitlines()]


def test_a_full_pipe_holds_nobody_up_and_what_can_be_replaced_is_left_out(pipe):
    reporter, read = pipe
    fill(reporter)
    reporter.tell("busy", share=0.5)
    reporter.phase("saving", 600.0)
    reporter.tell("metrics", step=7)
    reporter.say("saved")
    counts = [report["count"] for report in take_all(read)]
    assert counts == list(range(len(counts))) and len(counts) < 10_000
    reporter.progress(3)
    assert [report["kind"] for report in take_all(read)] == ["phase", "say", "progress"]


def test_a_line_that_is_longer_than_the_room_is_finished_before_the_next(pipe):
    reporter, read = pipe
    words = "x" * 200_000
    reporter.tell("device", name=words)
    reporter.tell("metrics", step=1)
    content = b""
    while b'"kind": "busy"' not in content:
        content += os.read(read, 1 << 16)
        reporter.tell("busy", share=0.5)
    kinds = [json.loads(line)["kind"] for line in content.splitlines()]
    assert kinds[0] == "device" and set(kinds[1:]) == {"busy"}
    assert json.loads(content.splitlines()[0])["name"] == words


@pytest.mark.parametrize("kind", ["cause", "failure"])
def test_last_words_are_waited_with(pipe, kind, monkeypatch):
    monkeypatch.setattr(reporting, "_LAST_WORDS_S", DEADLINE_S)
    reporter, read = pipe
    fill(reporter)
    teller = threading.Thread(target=reporter.tell, args=(kind,), kwargs={"message": "why"})
    teller.start()
    reports = take_all(read)
    teller.join(DEADLINE_S)
    assert not teller.is_alive()
    assert [report["kind"] for report in reports + take_all(read)][-1] == kind


def test_last_words_that_nobody_hears_do_not_keep_a_worker_for_ever(pipe, monkeypatch):
    monkeypatch.setattr(reporting, "_LAST_WORDS_S", 0.01)
    reporter, read = pipe
    fill(reporter)
    reporter.failure("nobody hears this")
    assert all(report["kind"] == "progress" for report in take_all(read))


def test_a_launcher_that_is_gone_is_no_reason_to_fail():
    read, write = os.pipe()
    os.close(read)
    reporter = Reporter(write)
    reporter.say("nobody there")
    reporter.progress(1)
    os.close(write)
