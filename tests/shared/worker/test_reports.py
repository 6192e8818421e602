"""Reports to a launcher that does not read for a while: workers go on, and what matters arrives."""

import json
import os
import threading

import pytest

from shared.devices.device_facts import DeviceFacts
from shared.errors import Trouble
from shared.run.typed_lines import encode
from shared.worker import reports as reporting
from shared.worker.reports import (
    Arrived,
    Busy,
    Cause,
    Compared,
    Convicted,
    Device,
    Failure,
    Forward,
    LineKind,
    Metrics,
    Outlook,
    Pace,
    Phase,
    Placed,
    Progress,
    Report,
    Reporter,
    Said,
    Sent,
    decode,
)

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
    reporter.tell(Busy(0.5))
    reporter.phase("saving", 600.0)
    reporter.tell(Metrics({"step": 7}))
    reporter.say("saved")
    counts = [report["count"] for report in take_all(read)]
    assert counts == list(range(len(counts))) and len(counts) < 10_000
    reporter.progress(3)
    assert [report["kind"] for report in take_all(read)] == ["phase", "said", "progress"]


def test_a_line_that_is_longer_than_the_room_is_finished_before_the_next(pipe):
    reporter, read = pipe
    words = "x" * 200_000
    reporter.tell(Sent(words, "/GPU:0"))
    reporter.tell(Metrics({"step": 1}))
    content = b""
    while b'"kind": "busy"' not in content:
        content += os.read(read, 1 << 16)
        reporter.tell(Busy(0.5))
    kinds = [json.loads(line)["kind"] for line in content.splitlines()]
    assert kinds[0] == "sent" and set(kinds[1:]) == {"busy"}
    assert json.loads(content.splitlines()[0])["sha256"] == words


@pytest.mark.parametrize("last", [Cause("why", will_pass=False), Failure("why")])
def test_last_words_are_waited_with(pipe, last, monkeypatch):
    monkeypatch.setattr(reporting, "_LAST_WORDS_S", DEADLINE_S)
    reporter, read = pipe
    fill(reporter)
    teller = threading.Thread(target=reporter.tell, args=(last,))
    teller.start()
    reports = take_all(read)
    teller.join(DEADLINE_S)
    assert not teller.is_alive()
    assert decode(json.dumps((reports + take_all(read))[-1])) == last


def test_last_words_that_nobody_hears_do_not_keep_a_worker_for_ever(pipe, monkeypatch):
    monkeypatch.setattr(reporting, "_LAST_WORDS_S", 0.01)
    reporter, read = pipe
    fill(reporter)
    reporter.tell(Failure("nobody hears this"))
    assert all(report["kind"] == "progress" for report in take_all(read))


def test_a_launcher_that_is_gone_is_no_reason_to_fail():
    read, write = os.pipe()
    os.close(read)
    reporter = Reporter(write)
    reporter.say("nobody there")
    reporter.progress(1)
    os.close(write)


OUTLOOK = Outlook(0.5, 60.0, 1000, True, 90.0, None, "waiting for: reading", True)
EVERY_KIND = [
    Phase("saving", 600.0),
    Progress(3),
    Said("⚠️  Left out u7", LineKind.LEFT_OUT),
    Busy(0.5, 640, 3, 7, None),
    Metrics({"step": 7, "loss": None, "model_gpu_busy": [0.5]}, OUTLOOK),
    Metrics({"step": 7, "val_loss": 1.0}),
    Cause("out of memory", will_pass=False, trouble=Trouble.MEMORY),
    Failure("no GPU", Trouble.DEVICE),
    Convicted((3, 41)),
    Placed("node-7"),
    Device(DeviceFacts("fake", 0, "", True, (0, 1), "2.20")),
    Forward(True, "/GPU:0", 5, 1.0, 2.0),
    Compared({"mel": 0.01, "pitch": 0.0}),
    Sent("aa", "/GPU:0"),
    Arrived("aa", "/GPU:0", 5, 1.5),
    Pace("data", {"batches_per_s": 1.5, "model_gpu_busy": [0.5]}),
]


def test_every_kind_of_report_comes_through_as_it_was():
    assert {type(report) for report in EVERY_KIND} == set(Report.__args__)
    for report in EVERY_KIND:
        assert decode(encode(report)) == report


@pytest.mark.parametrize(
    "line",
    [
        "", "not json", "[]", "null", "7", "{}", '{"kind": null}', '{"kind": ["phase"]}',
        '{"kind": "unheard of"}', '{"kind": "phase"}', '{"kind": "phase", "name": "saving"}',
        '{"kind": "phase", "name": 7, "deadline_s": 1.0}',
        '{"kind": "phase", "name": "saving", "deadline_s": "soon"}',
        '{"kind": "phase", "name": "saving", "deadline_s": true}',
        '{"kind": "phase", "name": "saving", "deadline_s": null}',
        '{"kind": "progress", "count": 1.5}', '{"kind": "progress", "count": true}',
        '{"kind": "said", "text": "x", "kind_of_line": "unheard of"}',
        '{"kind": "said", "text": "x", "kind_of_line": []}',
        '{"kind": "busy", "share": [1.0]}', '{"kind": "convicted", "rows": [1, "2"]}',
        '{"kind": "convicted", "rows": 3}', '{"kind": "metrics", "record": []}',
        '{"kind": "metrics", "record": {}, "outlook": {}}', '{"kind": "metrics", "outlook": null}',
        '{"kind": "device", "facts": null}', '{"kind": "failure", "message": null}',
        '{"kind": "phase", "name": "x", "deadline_s": 1' + "0" * 400 + "}",
        "[" * 100_000, b"\xff\xfe",
    ],
)  # fmt: skip
def test_a_line_that_is_no_report_is_nothing(line):
    assert decode(line) is None


def test_a_whole_number_will_do_for_any_other_and_what_is_not_known_is_passed_over():
    line = '{"kind": "phase", "name": "saving", "deadline_s": 8, "later": {"x": []}}'
    assert decode(line) == Phase("saving", 8.0)
    assert decode('{"kind": "busy", "share": 1}') == Busy(1.0)


def test_kernels_that_a_driver_has_to_compile_are_given_hours_once_in_each_phase(pipe):
    _, read = pipe
    reporter = Reporter(pipe[0]._descriptor, compiles_kernels=True)
    for _ in range(2):
        for name in ("starting", "compiling", "validating", "training", "waiting for data"):
            reporter.phase(name, 60.0)
    told = [(phase["name"], phase["deadline_s"]) for phase in take_all(read)]
    hours = 4 * 3600.0
    assert told == [
        ("compiling", hours), ("compiling", hours), ("validating", hours), ("training", 60.0),
        ("waiting for data", 60.0), ("starting", 60.0), ("compiling", 60.0), ("validating", 60.0),
        ("training", 60.0), ("waiting for data", 60.0),
    ]  # fmt: skip
