"""Which task a run trains, and by what recipe its features are made: task.json in its directory.

It holds names and digests to compare with, and never leads to code: that is named on the command
line.
"""

from __future__ import annotations

import dataclasses
import json

from shared.errors import InputError, TaskError
from shared.run.directory import RunDirectory
from shared.run.files import write_file
from shared.task import DataSide
from shared.task.registry import DEFAULT, Task
from shared.task.users_file import line_of

# Of a task's own recipe: it travels in a message.
_MOST_ENTRIES, _LONGEST = 24, 200


@dataclasses.dataclass(frozen=True)
class TaskIdentity:
    """What of a task decides what is trained."""

    name: str = DEFAULT  # of a built-in task, or of the file
    model: str = ""  # the model's class, of a file
    sha256: str = ""  # of the file
    version: int = 1  # of the data side
    # All that decides the features: settings, versions of libraries. None: not known.
    recipe: dict[str, str] | None = None

    @classmethod
    def of(cls, task: Task, version: int, recipe: dict[str, str]) -> TaskIdentity:
        model = "" if task.is_built_in else task.model_name
        return cls(task.name, model, task.sha256, version, recipe)

    @property
    def flag(self) -> str:
        """As it is named on the command line, but for the folder."""
        return self.name + (f":{self.model}" if self.model not in ("", "Model") else "")


def recipe_of(task: Task, side: DataSide) -> dict[str, str]:
    """All that decides the features that a data side makes.

    Raises:
        TaskError: its own part is not what can be sent.
    """
    own = side.recipe()
    fits = (
        isinstance(own, dict)
        and len(own) <= _MOST_ENTRIES
        and all(
            isinstance(each, str) and len(each) <= _LONGEST for pair in own.items() for each in pair
        )
    )
    if not fits:
        raise TaskError(
            f"{line_of(side.recipe)}: expected a dictionary of at most {_MOST_ENTRIES} texts by "
            f"name, none longer than {_LONGEST} characters. A digest can stand for a long one."
        )
    name, sha256 = task.data_identity
    of_file = {"task file": sha256} if sha256 else {}
    return {"task": name, "version": str(side.version), **of_file, **own}


def write_identity(run: RunDirectory, identity: TaskIdentity) -> None:
    """Write down what the run trains."""
    write_file(run.task, json.dumps(dataclasses.asdict(identity), indent=2).encode() + b"\n")


def read_identity(run: RunDirectory) -> TaskIdentity:
    """What the run trains; speech, where nobody wrote it down.

    Raises:
        InputError: what is written there can't be read.
    """
    if not run.task.exists():
        return TaskIdentity()
    try:
        found = json.loads(run.task.read_text("utf-8"))
        recipe = found["recipe"]
        return TaskIdentity(
            name=str(found["name"]),
            model=str(found["model"]),
            sha256=str(found["sha256"]),
            version=int(found["version"]),
            recipe=None if recipe is None else {str(k): str(v) for k, v in recipe.items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"{run.task}: is damaged, so nobody knows what this run trains. Give the same command "
            "with --accept-edited-task, which writes it anew, or with --fresh to start over."
        ) from None


def check_same_task(run: RunDirectory, task: Task, accept_edited: bool = False) -> None:
    """See that the task that was named is the one that the run was begun with.

    Raises:
        InputError: it is not; says what differs and what to do.
    """
    if accept_edited and _is_damaged(run):
        return
    known = read_identity(run)
    model = "" if task.is_built_in else task.model_name
    if (task.name, model) != (known.name, known.model):
        raise InputError(
            f"{run.path} was begun with --task {known.flag}. Give that to go on with it, or choose "
            "another --run-dir."
        )
    if task.sha256 != known.sha256 and not accept_edited:
        raise InputError(
            f"{task.name} was edited since {run.path} was begun with it. Give --accept-edited-task "
            "to go on with it as it is now, or --fresh to start over."
        )


def _is_damaged(run: RunDirectory) -> bool:
    try:
        read_identity(run)
    except InputError:
        return True
    return False


def _shown(text: str) -> str:
    """What another process sent, as it can be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:40])


def difference(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """What differs between two recipes, in words; empty where nothing does."""
    for name in sorted({*ours, *theirs}):
        a, b = ours.get(name, "nothing"), theirs.get(name, "nothing")
        if a != b:
            return f"{_shown(name)}: {_shown(b)} there, {_shown(a)} in this run"
    return ""
