"""A user's task file: loaded as it was when the run began, its errors told in its own lines."""

from __future__ import annotations

import hashlib
import linecache
import re
import sys
import traceback
import types
from pathlib import Path

from shared.errors import TandemError, TaskError

_LONGEST_WORDS = 300
# Whoever fails in one of these methods was asked for this.
_ASKED_FOR = {
    "examples": "the examples of the data folder",
    "look": "what one example is",
    "survey": "a first look at all examples",
    "corpus": "what the index keeps",
    "open": "the data side to get ready",
    "recipe": "what decides the features",
    "read": "an example from its file",
    "features": "the features of a batch",
    "companions": "the companions of a batch",
    "row": "one example's part of a batch",
    "build": "the model",
    "losses": "the losses of a batch",
    "weight": "what the losses are divided by",
    "players": "who learns what",
    "optimizer": "an optimizer",
    "amount": "how much a batch holds",
    "viewer": "what is shown at a validation",
    "keep": "examples to show",
    "make": "what is shown at a validation",
    "write": "what is shown at a validation",
    "begin_from": "another run's weights",
}
_loaded: dict[str, str] = {}  # file -> name of its module


def load_users_file(file: str, sha256: str) -> types.ModuleType:
    """The module of a task file, run once in this process. Modules beside it can be imported.

    Raises:
        TaskError: it was edited meanwhile, or its own code fails.
    """
    name = f"tandem_task_{sha256[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    path = Path(file)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TaskError(f"--task {file}: can't be read ({error.strerror}).") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise TaskError(
            f"{path.name} has been edited while the run was going on. Start the same command again, "
            "with --accept-edited-task to go on with it as it is now."
        )
    module = types.ModuleType(name)
    module.__file__ = file
    _loaded[file] = name
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        exec(compile(content, file, "exec"), module.__dict__)
    except TandemError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise TaskError(words_of(error, file) or str(error)) from error
    return module


def users_words(error: BaseException) -> str | None:
    """An error that comes from a task file in one sentence, with line and cause; else None."""
    for file in _loaded:
        if words := words_of(error, file):
            return words
    return None


def words_of(error: BaseException, file: str) -> str | None:
    """The same of one file; None where it has no part in the error."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    text = str(error)
    if frames:
        asked, line = frames[0].name, frames[-1].lineno or 0
        function = frames[-1].name
    else:
        # An operation of a graph that fails while it runs: TensorFlow tells where it was written.
        found = re.findall(rf'File "{re.escape(file)}", line (\d+), in (\w+)', text)
        if not found:
            return None
        asked, (line, function) = found[0][1], found[-1]
    where = "" if function == "<module>" else f" (in {function})"
    source = linecache.getline(file, int(line)).strip()
    cause = f"{type(error).__name__}: {_first_line(text)}".rstrip(": ")
    words = f"{Path(file).name} line {line}{where}: {cause}"
    if source:
        words += f" at '{source[:80]}'"
    if asked in _ASKED_FOR:
        words += f". The engine was asking for {_ASKED_FOR[asked]}"
    return words + "."


_SAYS_NOTHING = re.compile(
    r"^(in user code:|Graph execution error:|Detected at node|Node:|File \"|Traceback|<stack|\s|$)"
)


def _first_line(text: str) -> str:
    """Of a message, the first line that says something, shortened."""
    lines = [line for line in text.splitlines() if not _SAYS_NOTHING.match(line)]
    first = re.sub(
        r"\[\[?\{\{.*?\}\}.*|\[Op:.*|\{\{.*?\}\}\s*", "", lines[0] if lines else ""
    ).strip()
    return first[:_LONGEST_WORDS].rstrip(".")


def line_in_stack(frames: list[traceback.FrameSummary]) -> str:
    """Where a thread stands in a task file: "my_task.py line 7 (in read): ", or nothing."""
    own = [frame for frame in frames if frame.filename in _loaded]
    return (
        f"{Path(own[-1].filename).name} line {own[-1].lineno} (in {own[-1].name}): " if own else ""
    )


def users_line_of(method: object) -> str:
    """The same with a colon, of a method in a task file; nothing for one that is built in."""
    code = getattr(getattr(method, "__func__", method), "__code__", None)
    is_users = code is not None and code.co_filename in _loaded
    return f"{line_of(method)}: " if is_users else ""


def line_of(method: object) -> str:
    """Where a method of a task is written, for what is found about its results."""
    function = getattr(method, "__func__", method)
    code = getattr(function, "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", "the task")
    return f"{Path(code.co_filename).name} line {code.co_firstlineno} ({code.co_name})"
