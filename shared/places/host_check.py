"""Whether a host sees what a run needs and runs the same program: looked at there, judged here."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import platform
import secrets
import shutil
from pathlib import Path

from shared.config.settings import Config
from shared.plan.index import Index, root_folders
from shared.run.directory import RunDirectory
from shared.run.environment import versions_here
from shared.task.registry import Task

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("shared", "data_worker", "model_worker")
_MOST_FILES = 64  # of the data, evenly through the index
_LEAST_FREE_MB = 64
_ANY_HOST = ("system",)  # of the versions: what may differ


@dataclasses.dataclass(frozen=True)
class Look:
    """What every host is to look at."""

    run: str  # directory
    mark: str  # a file in it, and what it holds
    content: str
    files: tuple[tuple[str, int], ...]  # of the data and of the task: path and bytes


@dataclasses.dataclass(frozen=True)
class Sight:
    """What a host has seen."""

    host: str
    versions: dict[str, str]
    program: str  # a digest of its code
    content: str = ""  # of the mark
    answer: str = ""  # a file that was left in the run directory for whoever asked
    free_mb: int = 0
    missing: str = ""  # the first file that is not there in its size
    problem: str = ""  # what the system said


def what_to_look_at(run: RunDirectory, config: Config, mark: str, content: str) -> Look:
    """Of a run whose data was looked at. The mark must be there before anyone looks."""
    index = Index.load(run.index)
    roots = root_folders(config.data.train_data or "", config.data.val_data)
    step = max(1, len(index) // _MOST_FILES)
    files = [
        (os.path.join(roots[index.root[row]], index.paths[row]), int(index.file_size[row]))
        for row in range(0, len(index), step)
    ]
    task = Task.of(config.run.task)
    if not task.is_built_in:
        path = config.run.task.partition(":")[0]
        files.append((path, os.path.getsize(path)))
    return Look(str(run.path.resolve()), mark, content, tuple(files))


def look(what: Look) -> Sight:
    """Look from this host."""
    sight = Sight(platform.node(), versions_here(), program_digest())
    try:
        folder = Path(what.run)
        content = (folder / what.mark).read_text(encoding="utf-8")
        answer = folder / f"{what.mark}.{secrets.token_hex(8)}"
        answer.write_text(content, encoding="utf-8")
        free_mb = shutil.disk_usage(folder).free >> 20
    except OSError as error:
        return dataclasses.replace(sight, problem=error.strerror or str(error))
    missing = next((path for path, size in what.files if not _is_there(path, size)), "")
    return dataclasses.replace(
        sight, content=content, answer=answer.name, free_mb=free_mb, missing=missing
    )


def _is_there(path: str, size: int) -> bool:
    try:
        return os.stat(path).st_size == size
    except OSError:
        return False


def why_not(what: Look, ours: Sight, theirs: Sight) -> str:
    """Why a host can't take part, with what would help; empty if it can."""
    for name in sorted({*ours.versions, *theirs.versions} - {*_ANY_HOST}):
        here, there = ours.versions.get(name, "nothing"), theirs.versions.get(name, "nothing")
        if here != there:
            return f"it has {name} {there}, this host {here}. Install the same there"
    if theirs.program != ours.program:
        return "its copy of this program is another. Bring it to the state of this host's"
    if theirs.problem or theirs.content != what.content:
        words = f" ({theirs.problem})" if theirs.problem else ""
        return (
            f"it does not see the run directory {what.run}{words}. Mount it there, to be written to"
        )
    with contextlib.suppress(OSError):
        path = Path(what.run) / theirs.answer
        written = path.read_text(encoding="utf-8")
        path.unlink()
        if written == what.content:
            if theirs.free_mb < _LEAST_FREE_MB:
                return f"{what.run} has {theirs.free_mb} MB left there. Make room"
            if theirs.missing:
                return f"it does not see the data as it is here ({theirs.missing}). Mount it there"
            return ""
    return f"what it writes into {what.run} is not seen here. Mount the same folder on both"


def program_digest() -> str:
    """Of every file of code that a worker may run."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            digest.update(f"{path.relative_to(_ROOT)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
