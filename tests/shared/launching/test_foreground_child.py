"""Children of a command that end without a word of their own."""

import signal

import pytest

from shared.commands.demo import _child
from shared.errors import TandemError
from shared.launching.foreground_child import ending_in_words, run_in_foreground
from shared.launching.preparation_child import prepare_run
from shared.run.directory import RunDirectory

NO_MEMORY = "killed by SIGKILL, most often because the system ran out of memory; see dmesg"


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """A folder whose modules every child can import."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_an_ending_is_said_in_words():
    assert ending_in_words(-signal.SIGKILL) == NO_MEMORY
    assert ending_in_words(-signal.SIGSEGV) == "killed by SIGSEGV"
    assert ending_in_words(3) == "exit status 3"


def test_a_child_that_is_killed_is_named_with_the_likely_cause(own_code):
    (own_code / "killed.py").write_text("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(TandemError, match=rf"python -m killed \(pid \d+\): {NO_MEMORY}\."):
        run_in_foreground("killed", [])


def test_a_child_that_fails_ends_the_demo_with_its_status(own_code):
    (own_code / "failing.py").write_text("import sys; sys.exit(3)")
    assert run_in_foreground("failing", []) == 3
    with pytest.raises(TandemError, match="python -m failing: exit status 3."):
        _child("failing")


def test_a_preparation_that_is_killed_names_the_likely_cause_and_its_log(own_code):
    (own_code / "sitecustomize.py").write_text("import os; os.kill(os.getpid(), 9)")
    run = RunDirectory(own_code / "run")
    run.create()
    with pytest.raises(TandemError) as caught:
        prepare_run(run, lambda text: None)
    log = run.path / "preparation.log"
    assert str(caught.value) == f"the preparation ended: {NO_MEMORY}. Its log is {log}"
