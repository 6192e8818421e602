"""A stop signal before training begins, and settings that would make a begun run another one."""

import dataclasses
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import launcher
from shared.config.settings import Config, DataConfig, ModelConfig, TrainingConfig
from shared.config.toml_file import write_config
from shared.errors import InputError
from shared.run.directory import RunDirectory
from shared.run.resume import can_go_on
from shared.status.run_state import State, look_at

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_a_stop_while_the_data_is_looked_at_ends_with_130(
    number, tmp_path, monkeypatch, capsys, request
):
    original = signal.getsignal(number)
    before = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    signal.signal(number, before)  # whoever runs the tests may have had it ignored
    request.addfinalizer(lambda: signal.signal(number, original))

    def prepare(run, say, live, task, on_progress):
        on_progress("looking", 1, 2)
        os.kill(os.getpid(), number)
        signal.pause()

    monkeypatch.setattr("shared.commands.train.prepare_run", prepare)
    run = tmp_path / "run"
    assert launcher.main(["--train-data", str(tmp_path), "--run-dir", str(run)]) == 130
    assert "Interrupted before training began" in capsys.readouterr().out
    assert signal.getsignal(number) is before
    os.close(RunDirectory(run).lock("launcher"))  # nobody holds it any more
    assert look_at(RunDirectory(run)).state is State.INTERRUPTED


def test_a_system_that_refuses_is_a_sentence(tmp_path, monkeypatch, capsys):
    def refuse(config, path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("shared.commands.train.write_config", refuse)
    run = tmp_path / "run"
    assert launcher.main(["--train-data", str(tmp_path), "--run-dir", str(run)]) == 1
    assert f"❌ {run}/config.toml: No space left on device." in capsys.readouterr().err


STOPPING_ITSELF = (
    "import os, signal, sys\n"
    "from shared.worker.start import StopFlag\n"
    "should_stop = StopFlag(starting=True)\n"
    "for word in sys.argv[1:]:\n"
    "    if word == 'stop':\n"
    "        os.kill(os.getpid(), signal.SIGTERM)\n"
    "    else:\n"
    "        getattr(should_stop, word)()\n"
    "sys.exit(7 if should_stop() else 8)\n"
)


@pytest.mark.parametrize(
    ("story", "code"),
    [
        ("stop", 130),
        ("now_at_work stop", 7),
        ("now_at_work now_starting stop", 130),  # starting over, after a roll-back
        ("now_at_work stop now_starting", 130),
    ],
)
def test_a_worker_that_is_starting_ends_at_once_and_one_at_work_notes_the_stop(story, code):
    ended = subprocess.run(
        [sys.executable, "-c", STOPPING_ITSELF, *story.split()], cwd=ROOT, timeout=60, check=False
    )
    assert ended.returncode == code


def begun(tmp_path, config):
    run = RunDirectory(tmp_path / "run")
    (run.checkpoints / "step-00000001").mkdir(parents=True)
    run.index.touch()
    write_config(config, run.config)
    return run


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("data", {"batch_size": 5}),
        ("task", {"max_seconds": 9.0}),
        ("training", {"seed": 5}),
        ("training", {"grad_accum": 5}),
        ("task", {"model_size": "big"}),
    ],
)
def test_a_begun_run_is_not_gone_on_with_as_another(tmp_path, section, change):
    config = Config(DataConfig(train_data="x"), ModelConfig(), TrainingConfig())
    run = begun(tmp_path, config)
    assert can_go_on(run, config)
    changed = dataclasses.replace(getattr(config, section), **change)
    (key,) = change
    with pytest.raises(InputError, match=f"was begun with {key} = .*--fresh"):
        can_go_on(run, dataclasses.replace(config, **{section: changed}))


def test_a_longer_budget_is_no_other_run(tmp_path):
    config = Config(DataConfig(train_data="x"), ModelConfig(), TrainingConfig(max_steps=10))
    run = begun(tmp_path, config)
    longer = dataclasses.replace(config, training=TrainingConfig(max_steps=20, learning_rate=0.01))
    assert can_go_on(run, longer)
