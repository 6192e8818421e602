"""A run that trained a vocoder, found and looked at before TensorFlow is there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from model_worker.checkpoints.averaged import averaged_checkpoint
from model_worker.checkpoints.files import Checkpoint
from shared.config.toml_file import load_config
from shared.errors import InputError
from shared.plan.index import Index
from shared.run.directory import RunDirectory
from shared.run.task_identity import read_identity

TASK = "vocoder"


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """What a generator is made from."""

    name: str  # of its folder
    index: Index
    model_size: str
    checkpoint: Checkpoint


def is_run(path: str | Path) -> bool:
    """Whether a folder is a run, of whatever task."""
    return RunDirectory(path).config.is_file()


def trained_run(path: str | Path, say: Callable[[str], None]) -> TrainedRun:
    """The vocoder of a run directory, at its best; `say` is told of checkpoints that are passed over.

    Raises:
        InputError: the run is of another task, or has nothing to speak with yet.
    """
    run = RunDirectory(path)
    known = read_identity(run)
    if known.name != TASK:
        raise InputError(
            f"{path}: is a run of --task {known.flag}, which makes no sound of a mel. Name one of "
            f"--task {TASK}."
        )
    if not run.index.is_file():
        raise InputError(f"{path}: holds no run whose data was looked at.")
    config = load_config(run.config, TASK)
    checkpoint = averaged_checkpoint(run, say, "to speak with")
    name = Path(path).absolute().name
    return TrainedRun(name, Index.load(run.index), config.task.model_size, checkpoint)
