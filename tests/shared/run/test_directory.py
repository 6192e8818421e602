"""The run directory and the locks that keep it to one run."""

import os
import subprocess
import sys

import pytest

from shared.errors import InputError
from shared.launching.training_run import RunResult
from shared.run.directory import RunDirectory

HOLDER = (
    "import sys\n"
    "from shared.run.directory import RunDirectory\n"
    "lock = RunDirectory(sys.argv[1]).lock('launcher')\n"
    "print('locked', flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path / "runs" / "a")
    run.create()
    return run


def test_the_directory_is_made_with_its_parents_and_may_be_there_already(run):
    assert run.path.is_dir()
    run.create()


def test_a_directory_that_can_not_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="can't be made.*Choose another --run-dir"):
        RunDirectory(tmp_path / "file" / "run").create()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_can_not_be_written_is_a_sentence(run):
    run.path.chmod(0o500)
    with pytest.raises(InputError, match="can't be written to"):
        run.create()


def test_a_lock_has_one_holder_and_names_it(run):
    lock = run.lock("launcher")
    with pytest.raises(InputError) as caught:
        run.lock("launcher")
    assert str(caught.value) == (
        f"{run.path}: another launcher (pid {os.getpid()}) is using this run directory. "
        "Wait for it to end, or choose another --run-dir (--run for workers started by hand)."
    )
    os.close(lock)
    os.close(run.lock("launcher"))


def test_locks_of_different_roles_do_not_meet(run):
    os.close(run.lock("launcher"))
    locks = [run.lock("launcher"), run.lock("model process")]
    for lock in locks:
        os.close(lock)


def test_a_lock_ends_with_its_process_however_that_ends(run):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(run.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(InputError, match=f"pid {holder.pid}"):
            run.lock("launcher")
        holder.kill()
        holder.wait()
    os.close(run.lock("launcher"))


def test_a_lock_is_not_inherited_by_children(run):
    lock = run.lock("launcher")
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    )
    with child:
        child.stdout.readline()  # the kernel has closed what is not inherited
        os.close(lock)
        os.close(run.lock("launcher"))
        child.stdin.close()


def test_a_lock_file_of_nonsense_is_no_obstacle(run):
    (run.path / ".launcher.lock").write_bytes(b"\xff" * 1000)
    os.close(run.lock("launcher"))
    assert (run.path / ".launcher.lock").read_text() == f"{os.getpid()}\n"


def test_a_result_reads_the_whole_lines_of_the_run_s_metrics(tmp_path):
    result = RunResult(exit_code=130, cause="interrupted", run_dir=str(tmp_path), num_restarts=0)
    assert result.metrics() == [] and not result.finished
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 3.5}\n{"step": 2, "lo')
    assert result.metrics() == [{"step": 1, "loss": 3.5}]
    assert RunResult(0, "finished", str(tmp_path), 0).finished


def test_what_a_killed_process_had_not_put_in_its_place_is_removed(run):
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip
    left, mine = f".config.toml.{ended}.0123abcd", f".config.toml.{os.getpid()}.0123abcd"
    for name in (left, mine, ".model process.lock", "config.toml"):
        (run.path / name).touch()
    run.remove_leftovers()
    assert sorted(path.name for path in run.path.iterdir()) == sorted(
        [mine, ".model process.lock", "config.toml"]
    )


def test_who_holds_a_lock_is_seen_and_not_believed(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.create()
    assert not run.is_locked_by(os.getpid())
    lock = run.lock("launcher")
    try:
        assert run.is_locked_by(os.getpid())
        run.path.rename(tmp_path / "moved")
        assert RunDirectory(tmp_path / "moved").is_locked_by(os.getpid())
        assert not run.is_locked_by(os.getppid())
    finally:
        os.close(lock)
    # Its number alone proves nothing.
    (tmp_path / "moved" / ".launcher.lock").write_text(f"{os.getpid()}\n")
    assert not RunDirectory(tmp_path / "moved").is_locked_by(os.getpid())
