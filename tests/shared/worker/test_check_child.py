"""What a check's own process tells, and how it may end."""

import sys

import pytest

from shared.errors import TandemError
from shared.worker.check_child import findings_of
from shared.worker.check_lines import Passed

TELLS = (
    "import sys; from shared.worker import checking as c; from shared.errors import TandemError\n"
    "def work():\n"
    "    print('a library speaks')\n"
    "    c.passed('read', '3 examples')\n"
    "    if sys.argv[1:]: raise TandemError('mine.py:3: no.')\n"
    "sys.exit(c.check_main(work))"
)


def test_what_it_tells_is_taken_and_what_libraries_print_goes_into_the_log(tmp_path):
    log = tmp_path / "log"
    found = findings_of([sys.executable, "-c", TELLS], "data", log)
    assert found.sound() == [Passed("read", "3 examples")] and found.status == 0
    assert "a library speaks" in log.read_text()


def test_what_it_finds_wrong_is_said_beside_what_it_saw_before(tmp_path):
    found = findings_of([sys.executable, "-c", TELLS, "wrong"], "data", tmp_path / "log")
    assert found.lines[0] == Passed("read", "3 examples")
    assert (found.problem, found.status) == ("mine.py:3: no.", 1)
    with pytest.raises(TandemError, match=r"^mine\.py:3: no\.$"):
        found.sound()


def test_one_that_does_not_end_is_ended(tmp_path):
    command = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    found = findings_of(command, "data", tmp_path / "log", deadline_s=0.5)
    assert "took longer than 0.5 s" in found.problem
