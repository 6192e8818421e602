"""The runs of one command: a task may want another one trained first, in a part of the minutes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from shared.config.settings import Config
from shared.config.toml_file import load_config
from shared.errors import ConfigError
from shared.run.directory import RunDirectory
from shared.run.event_log import Ended, read_events
from shared.task.registry import Task


def stages_of(config: Config) -> list[Config]:
    """The runs that a command is for, in order; its run directory must be settled.

    The first of two lies in a folder of its task's name in the run directory of the other.

    Raises:
        ConfigError: the minutes are to be shared out, and there are none.
    """
    first = Task.of(config.run.task).first
    if first is None:
        return [config]
    name, option = first
    share = getattr(config.task, option)
    own = _with_share(config, 1.0 - share)
    if not share:
        return [own]
    if not config.training.max_minutes:
        raise ConfigError(
            f"{option} shares out minutes, and none were given. Give --max-minutes, or leave out "
            f"--{option.replace('_', '-')}."
        )
    run_dir = Path(config.run.run_dir or "")
    begun = config.training.init_from
    other = RunDirectory(Path(begun) / name) if begun else None
    training = dataclasses.replace(
        _with_share(config, share).training,
        learning_rate=0.0,  # what was given is meant for the other one
        init_from=str(other.path) if other and other.config.is_file() else None,
    )
    run = dataclasses.replace(config.run, task=name, run_dir=str(run_dir / name), run_id=None)
    return [dataclasses.replace(config, training=training, run=run), own]


def is_done(stage: Config) -> bool:
    """Whether a run has come to the end of at least these minutes before."""
    directory = RunDirectory(stage.run.run_dir or "")
    events = read_events(directory.events)
    last = events[-1] if events else None
    if not isinstance(last, Ended) or last.exit_code or not directory.config.is_file():
        return False
    before = load_config(directory.config, stage.run.task).training
    return stage.training.minutes <= before.minutes + 1e-6


def plan_in_words(stages: list[Config]) -> str:
    """How the minutes are shared out, and why that one comes first."""
    first, last = stages
    return (
        f"🧩 {first.training.minutes:.3g} of the {last.training.max_minutes:g} minutes go to the "
        f"{first.run.task}. It comes first, so that all samples are heard through it\n"
        f"   The other {last.training.minutes:.3g} go to the {last.run.task} itself"
    )


def _with_share(config: Config, share: float) -> Config:
    training = dataclasses.replace(config.training, minutes_share=share)
    return dataclasses.replace(config, training=training)
