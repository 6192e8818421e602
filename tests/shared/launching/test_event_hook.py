"""A command that is told what happens: one that works, and those that hang, fail, or are slow."""

import json
import os
import shlex
import sys
import time

import pytest

from shared.errors import InputError
from shared.launching.event_hook import EventHook, words_of

COPIES = "import sys\nfor line in sys.stdin:\n    open('told', 'a').write(line)\n"


@pytest.fixture
def hook(tmp_path, monkeypatch):
    """A hook whose command is this program; with what was said of it."""
    monkeypatch.chdir(tmp_path)

    def make(program, **settings):
        (tmp_path / "hook.py").write_text(program)
        said = []
        command = shlex.join([sys.executable, str(tmp_path / "hook.py")])
        return EventHook(command, tmp_path / "on_event.log", said.append, **settings), said

    return make


def told(tmp_path):
    path = tmp_path / "told"
    return (
        [json.loads(line)["n"] for line in path.read_text().splitlines()] if path.exists() else []
    )


def wait_for(condition):
    until_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until_s
        os.sched_yield()


def test_every_event_is_told_in_order_to_one_process_that_ends_with_its_input(hook, tmp_path):
    made, said = hook(COPIES)
    for number in range(100):
        made.tell({"kind": "step", "n": number, "text": "mehrere\nZeilen"})
    process = None
    wait_for(lambda: made._process is not None)
    process = made._process
    made.close(10)
    assert told(tmp_path) == list(range(100)) and said == []
    assert process.returncode == 0 and os.getpgid(0) != process.pid


def test_one_that_ends_after_each_event_is_started_for_the_next(hook, tmp_path):
    made, said = hook("line = input()\nopen('told', 'a').write(line + '\\n')\n")
    for number in range(3):
        made.tell({"n": number})
        wait_for(lambda number=number: told(tmp_path) == list(range(number + 1)))
        made._process.wait()
    made.close(10)
    assert said == []


def test_one_that_fails_is_tried_three_times_and_said_each_time(hook, tmp_path):
    made, said = hook("import sys\ninput()\nprint('no network')\nsys.exit(3)\n")
    for number in range(20):
        process = made._process
        made.tell({"n": number})
        wait_for(
            lambda process=process: made._process is not process or not made._thread.is_alive()
        )
        if made._process is not None:
            made._process.wait()
    made.close(10)
    assert len(said) == 3 and all("exit status 3" in line for line in said)
    assert "started again with the next event" in said[0] and "not started again" in said[-1]
    assert "no network" in (tmp_path / "on_event.log").read_text()


HANGS = (
    "import os, signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "child = subprocess.Popen(['sleep', '1000'])\n"
    "open('pids', 'w').write(f'{os.getpid()} {child.pid}')\n"
    "time.sleep(1000)\n"
)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_one_that_hangs_holds_up_nobody_and_is_ended_with_all_it_has_started(hook, tmp_path):
    made, _ = hook(HANGS)
    made.tell({"n": 0})
    wait_for(lambda: (tmp_path / "pids").exists() and " " in (tmp_path / "pids").read_text())
    begun_s = time.monotonic()
    for number in range(5000):
        made.tell({"n": number, "text": "x" * 200})  # more than the pipe and the queue take
    assert time.monotonic() - begun_s < 2
    made.close(0.2)
    wait_for(lambda: not any(map(is_alive, (tmp_path / "pids").read_text().split())))


def test_one_that_does_not_read_is_ended_and_said(hook, tmp_path):
    made, said = hook(HANGS, reads_within_s=0.3)
    for _ in range(1000):
        made.tell({"text": "x" * 200})
    wait_for(lambda: said)
    assert "has not read for 0 s and was ended" in said[0]
    made.close(0.2)


@pytest.mark.parametrize("command", ["no-such-program --x", "'unclosed", "", "/"])
def test_a_command_that_can_not_be_is_refused(command):
    with pytest.raises(InputError, match="--on-event"):
        words_of(command)
