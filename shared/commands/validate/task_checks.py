"""`validate --task FILE`: a task proved before a night is spent on it."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from shared.commands.demo_corpus import make_demo_corpus
from shared.config.settings import Config, DataConfig, RunConfig, TaskConfig, TrainingConfig
from shared.config.toml_file import write_config
from shared.console.say import say_plainly
from shared.errors import InputError, TandemError
from shared.launching.preparation_child import prepare_run
from shared.run.directory import RunDirectory
from shared.run.resume import with_absolute_paths
from shared.task.registry import Task
from shared.worker.check_child import findings_of
from shared.worker.check_lines import Passed
from shared.worker.child_environment import python_command

_NUM_STEPS = 3
TITLES = {
    "data": "Data: read, features and rows are pure and as declared",
    "model": "Model: learns, and goes on from a checkpoint bit for bit",
}
_MODULES = {"data": "data_worker.checks.task_check", "model": "model_worker.checks.task_check"}


def check_task(flags: argparse.Namespace) -> list[dict]:
    """Run the checks until one fails; returns how each went, for `--json`."""
    task = Task.of(flags.task)
    say_plainly(f"🔎 Validating the task {task.name}, on the CPU")
    folder = Path(tempfile.mkdtemp(prefix="tandem-validate-"))
    results: list[dict] = []
    try:
        title = "Preparation: the examples are found and looked at"
        run, saw = _prepared(flags, task, folder)
        _say_passed(results, title, saw)
        for role, title in TITLES.items():
            _say_passed(results, title, _look(role, run, flags, folder))
    except TandemError as error:
        results.append({"name": title, "passed": False, "saw": [], "problem": str(error)})
        say_plainly(f"❌ {title}")
        say_plainly(f"      {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if all(result["passed"] for result in results):
        say_plainly("🎉 The task is sound: Tandem's promises hold for it.")
    return results


def _say_passed(results: list[dict], title: str, saw: list[str]) -> None:
    results.append({"name": title, "passed": True, "saw": saw, "problem": None})
    say_plainly(f"✅ {title}")
    for line in saw:
        say_plainly(f"      {line}")


def _prepared(
    flags: argparse.Namespace, task: Task, folder: Path
) -> tuple[RunDirectory, list[str]]:
    """A run on the user's data, or on a small corpus where the data side is speech's."""
    data = flags.train_data
    if data is None:
        if task.has_data:
            raise InputError(
                f"{task.name} has a data side of its own: name its data with --train-data DIR."
            )
        data = str(make_demo_corpus(folder, num_examples=32, num_groups=2))
    elif not Path(data).exists():
        raise InputError(f"--train-data {data}: there is no such folder.")
    config = Config(
        data=DataConfig(train_data=data, batch_size=flags.batch_size, max_bad_fraction=1.0),
        training=TrainingConfig(max_steps=_NUM_STEPS, deterministic=True, seed=1),
        run=RunConfig(run_dir=str(folder / "run"), run_id="validate", task=flags.task),
        task=TaskConfig(model_size="tiny"),
    )
    config = with_absolute_paths(config)
    flags.task = config.run.task
    run = RunDirectory(folder / "run")
    run.create()
    write_config(config, run.config)
    prepared = prepare_run(run, say_plainly, task=config.run.task)
    details = f", {prepared.details}" if prepared.details else ""
    saw = [f"{prepared.usable} {prepared.noun}{details}"]
    if prepared.left_out:
        saw.append(f"{prepared.left_out} left out: {'; '.join(prepared.first_reasons)}")
    return run, saw


def _look(role: str, run: RunDirectory, flags: argparse.Namespace, folder: Path) -> list[str]:
    """What the child process of one half saw.

    Raises:
        TandemError: something is wrong with the task, in its own lines.
    """
    command = python_command("-m", _MODULES[role], "--run", str(run.path), "--task", flags.task)
    command += ["--batches", str(folder / "batches")]
    if role == "data" and flags.patience:
        command += ["--patience", str(flags.patience)]
    log = run.log_of(f"{role}_check")
    found = findings_of(command, role, log)
    seen = [line for line in found.sound() if isinstance(line, Passed)]
    if found.status:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise TandemError(f"the {role} half ended with status {found.status}: {' '.join(last)}")
    return [f"{line.method}: {line.saw}" if line.method else line.saw for line in seen]
