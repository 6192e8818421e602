"""A file that is there whole or not at all, whatever ends its writing."""

import os
import signal
import subprocess
import sys

import pytest

from shared.run.directory import RunDirectory
from shared.whole_file import whole_file


def test_it_takes_its_place_at_the_end_and_not_before(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with whole_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["a"]


def test_an_exception_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a"]


def test_nobody_else_may_open_what_is_written_so(tmp_path):
    before = os.umask(0)
    try:
        with whole_file(tmp_path / "secret", mode=0o600) as file:
            assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_what_a_killed_process_leaves_of_it_a_run_takes_away(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.create()
    script = (
        "import os, signal, sys; from shared.whole_file import whole_file\n"
        "with whole_file(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", script, run.config], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(list(run.path.glob(".config.toml.*"))) == 1
    run.remove_leftovers()
    assert not list(run.path.glob(".config.toml.*"))
