"""One example looked at by its task, in a process of the pool."""

from __future__ import annotations

import functools
import os
import stat
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shared.config.settings import Config
from shared.errors import TaskError
from shared.plan.index import DTYPES
from shared.task import BAD, DataSide, Example, LeaveOut, LeftOut, Looked
from shared.task.registry import Task
from shared.task.users_file import users_words


class Seen(NamedTuple):
    """A usable example: what the task found, and what the file is like."""

    looked: Looked
    file_size: int
    file_mtime_ns: int


@functools.lru_cache(maxsize=1)
def _side_of(task: Task, config: Config) -> DataSide:
    return task.data_side()(config)


def state_to_send(task: Task, side: DataSide, new: dict[str, Any]) -> dict[str, Any]:
    """What a data side knows by now; `new` is what it knew when it was made.

    What can't be sent and was there from the start, such as a lock, every process has of its own.

    Raises:
        TaskError: what can't be sent has come since.
    """
    state = {}
    for name, value in vars(side).items():
        if name == "config":
            continue
        try:
            ForkingPickler.dumps(value)
        except Exception as error:
            if name in new and value is new[name]:
                continue
            raise TaskError(
                f"{task.name}: survey set self.{name}, which can't be sent to the processes that "
                f"look at the examples ({error}). Set it in __init__ instead."
            ) from error
        state[name] = value
    return state


class Looker:
    """Looks at examples as the given data side would; travels to the pool's processes by name.

    A class of a user's file could not be sent there: they find it in the file again, and only then
    what the data side knows, which may be of such classes.
    """

    def __init__(
        self,
        task: Task,
        config: Config,
        roots: tuple[str, ...],
        state: dict[str, Any] | None = None,
    ):
        """`state`: of `state_to_send`."""
        self._task, self._config, self._roots = task, config, roots
        self._state = state or {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._state = state

    def __reduce__(self) -> tuple:
        # The other process makes it first, which imports the file, and then reads the state.
        return _ready_to_look, (self._task, self._config, self._roots), self._state

    def __call__(self, example: Example) -> Seen | LeftOut:
        """What was found, or why it is left out."""
        side = _side_of(self._task, self._config)
        vars(side).update(self._state)
        path = Path(self._roots[example.root], example.path)
        try:
            looked = side.look(example, path)
            problem = misfit(looked, side)
            if not problem:
                size, mtime_ns = _file_facts(self._roots[example.root], path)
                return Seen(looked, size, mtime_ns)
        except LeaveOut as left_out:
            return LeftOut.of(example, left_out.kind, left_out.reason)
        except FileNotFoundError:
            problem = f"there is no file {example.path}"
        except OSError as error:
            problem = f"can't be opened ({error.strerror or error})"
        except Exception as error:
            problem = users_words(error) or f"{type(error).__name__}: {error}"
        return LeftOut.of(example, BAD, problem)


def _ready_to_look(task: Task, config: Config, roots: tuple[str, ...]) -> Looker:
    _side_of(task, config)
    return Looker(task, config, roots)


def _file_facts(root: str, path: Path) -> tuple[int, int]:
    """Size and time of a regular file inside the data folder.

    Raises:
        LeaveOut: it is somewhere else, or something else.
        OSError: it can't be looked at.
    """
    home, real = os.path.realpath(root), os.path.realpath(path)
    if os.path.commonpath([home, real]) != home:
        raise LeaveOut("its file leads out of the data folder")
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise LeaveOut("is not a file")
    return status.st_size, status.st_mtime_ns


def misfit(looked: Any, side: DataSide) -> str:
    """What is wrong with a look's result; empty where it fits what the task declares."""
    name = type(side).__name__
    if not isinstance(looked, Looked):
        return f"{name}.look returned {type(looked).__name__}; expected shared.task.Looked"
    lengths = looked.lengths
    if not isinstance(lengths, (tuple, list)):
        return f"{name}.look found the lengths {lengths!r}; expected a tuple, one for each name"
    if len(lengths) != len(side.lengths):
        return f"{name}.look found {len(lengths)} lengths; declared are {side.lengths}"
    if any(not isinstance(n, int) or n < 1 for n in map(_as_int, lengths)):
        return f"{name}.look found the lengths {lengths}; expected whole numbers from 1 up"
    for array_name, value in looked.arrays.items():
        array = np.asarray(value)
        if array.ndim != 1 or array.dtype not in DTYPES:
            return (
                f"{name}.look found the array {array_name} of shape {array.shape} and dtype "
                f"{array.dtype}; expected numbers in one dimension"
            )
    return ""


def _as_int(value: Any) -> Any:
    return value.__index__() if hasattr(value, "__index__") else value
