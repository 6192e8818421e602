"""Going on with a run, or starting it over: what its directory must hold, and what may differ."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.config.option import decided, paths_in
from shared.config.settings import SECTIONS, Config
from shared.config.toml_file import load_config
from shared.errors import InputError
from shared.run.directory import RunDirectory


def with_absolute_paths(config: Config) -> Config:
    """config.toml must work from any working directory."""
    changed: dict[str, Any] = {}
    for name in SECTIONS:
        section = getattr(config, name)
        paths = {key: _absolute(path) for key, path in paths_in(section).items()}
        changed[name] = dataclasses.replace(section, **paths)
    file, colon, name = config.run.task.partition(":")
    task = f"{_absolute(file)}{colon}{name}" if file.endswith(".py") else config.run.task
    changed["run"] = dataclasses.replace(changed["run"], task=task)
    return dataclasses.replace(config, **changed)


def _absolute(path: str | None) -> str | None:
    return str(Path(path).resolve()) if path else None


def run_id_in(directory: RunDirectory, configured: str | None) -> str:
    """The run's identity on the wire: the configured one, unless it is another directory's.

    The socket's name comes from it. With one identity, a run that was begun from the config.toml of
    another, or in a copy of its directory, would answer that one's data processes. So an identity
    that was made here ends in a mark of the directory that it was made for. Any other was given by
    someone who wants it.
    """
    path = str(directory.path.resolve())
    here = hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()[:8]
    made_for = re.fullmatch(r"[0-9a-f]{16}-([0-9a-f]{8})", configured or "")
    if not configured or (made_for and made_for[1] != here):
        return f"{secrets.token_hex(8)}-{here}"
    return configured


def check_init_from(config: Config) -> None:
    """Whether --init-from names a run that this one can begin with.

    Raises:
        InputError: it does not, and why.
    """
    path = config.training.init_from
    if path is None:
        return
    other = RunDirectory(path)
    if not other.config.is_file():
        raise InputError(f"--init-from {path}: is not a run directory (it has no config.toml).")
    if not _has_checkpoint(other):
        raise InputError(f"--init-from {path}: has no checkpoint yet. Train it first.")
    theirs = decided(load_config(other.config).task, "model")
    for key, new in decided(config.task, "model").items():
        if (old := theirs[key]) != new:
            raise InputError(
                f"--init-from {path}: is a {old} model, this run a {new} one. "
                f"Give --{key.replace('_', '-')} {old}."
            )


def _has_checkpoint(directory: RunDirectory) -> bool:
    """Whether there is one, whole or not; what begins with a dot was never finished."""
    if not directory.checkpoints.is_dir():
        return False
    return any(not path.name.startswith(".") for path in directory.checkpoints.iterdir())


def can_go_on(
    directory: RunDirectory,
    config: Config,
    is_same_data: Callable[[RunDirectory, Config], bool] = lambda run, config: False,
) -> bool:
    """Whether the directory holds a run that has begun; its own index is then the truth.

    The data is not looked at again: a file that has gone bad since costs one example, not the
    resume. Data that has moved is asked about: `is_same_data`.

    Raises:
        InputError: settings were given that would make it another run.
    """
    if not (
        _has_checkpoint(directory) and directory.index.is_file() and directory.config.is_file()
    ):
        return False
    before = load_config(directory.config)
    for section in SECTIONS:
        old_values, new_values = (
            decided(getattr(each, section), "index", "stream", "model") for each in (before, config)
        )
        paths = paths_in(getattr(config, section))
        for key, new in new_values.items():
            if (old := old_values[key]) != new:
                if key in paths and old and new and is_same_data(directory, config):
                    continue
                raise InputError(
                    f"{directory.path} was begun with {key} = {old!r}, not {new!r}. Leave the flag "
                    "out to go on with it, choose another --run-dir, or give --fresh to start over."
                )
    return True


def start_over(directory: RunDirectory) -> None:
    """--fresh: set the old checkpoints and samples aside, and begin the logs again."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    logs = (directory.launcher_log, directory.events)
    for kept in (directory.checkpoints, directory.samples, *logs):
        if kept.exists():
            kept.rename(kept.with_name(f"{kept.stem}-{stamp}{kept.suffix}"))
    for log in (directory.metrics, directory.audit, directory.path / "skipped.jsonl"):
        log.unlink(missing_ok=True)
