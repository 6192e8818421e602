"""Which tasks there are: the built-in ones by name, any other by its file.

The two halves of a task are named here and imported only in the process that needs one.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import inspect
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from shared.config.installation import PROGRAM
from shared.errors import ConfigError, TaskError
from shared.task.batch import ROWS, WEIGHT, BatchForm
from shared.task.data_side import DataSide
from shared.task.model_side import ModelSide
from shared.task.users_file import load_users_file


class _BuiltIn(NamedTuple):
    """Where the parts of a built-in task are, each as module:name."""

    data: str
    model: str
    form: str  # what both processes know of its batches
    settings: str  # its section of the configuration
    next_step: str  # what people do with a run that has finished
    # Of the same data, one that can be trained first in the same command, and the option of the
    # settings that says in which share of the minutes.
    first: tuple[str, str] | None = None


_BUILT_IN = {
    "speech": _BuiltIn(
        data="data_worker.speech.task:SpeechData",
        model="model_worker.speech.task:SpeechModel",
        form="shared.speech.batch:FORM",
        settings="shared.speech.settings:SpeechConfig",
        next_step=('Speak: {program} speak --run {run} --text "Hello there." --out hello.wav'),
        first=("vocoder", "vocoder_share"),
    ),
    "vocoder": _BuiltIn(
        data="data_worker.vocoder.task:VocoderData",
        model="model_worker.vocoder.task:VocoderModel",
        form="shared.vocoder.batch:FORM",
        settings="shared.speech.settings:SpeechConfig",
        next_step=(
            "Speak with it:\n   {program} speak --run VOICE --vocoder {run} --text Hello "
            "--out hello.wav"
        ),
    ),
}
DEFAULT = "speech"
_Half = TypeVar("_Half", DataSide, ModelSide)
_DATA, _MODEL = "Data", "Model"


def _named(written: str) -> Any:
    module, _, name = written.partition(":")
    return getattr(importlib.import_module(module), name)


def settings_class() -> type:
    """The options of the data side that is built in, a section of the configuration."""
    return _named(_BUILT_IN[DEFAULT].settings)


@dataclasses.dataclass(frozen=True)
class Task:
    """A task as it was named: built in, or a file with one half of its own or both."""

    name: str  # of a built-in one, or the file's
    file: str = ""  # absolute; empty for a built-in one
    model_name: str = _MODEL  # the class that is the model half
    sha256: str = ""  # of the file
    has_data: bool = False  # whether the file brings this half
    has_model: bool = False

    @classmethod
    def of(cls, text: str) -> Task:
        """The task that `--task` names: speech, FILE.py, or FILE.py:MODEL.

        Nothing of the file is run.

        Raises:
            ConfigError: there is none; says what was expected.
        """
        if text in _BUILT_IN:
            return cls(text)
        file, colon, name = text.partition(":")
        path = Path(file)
        if path.suffix != ".py":
            names = ", ".join(_BUILT_IN)
            raise ConfigError(
                f"--task {text}: expected {names}, or a Python file with a task: FILE.py or "
                "FILE.py:MODEL."
            )
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"--task {text}: {file} can't be read ({error.strerror}).") from None
        classes = _names_in(path, content)
        model = name if colon else _MODEL
        has_data, has_model = _DATA in classes, model in classes
        if (colon and not has_model) or not (has_data or has_model):
            wanted = f"class {model}" if colon else f"class {_DATA} or class {_MODEL}"
            found = ", ".join(sorted(classes)) or "none"
            raise ConfigError(
                f"{file}: has no {wanted} (its classes: {found}). A task is a class Data, based on "
                "shared.task.DataSide, a class Model, based on shared.task.ModelSide, or both."
            )
        digest = hashlib.sha256(content).hexdigest()
        return cls(path.name, str(path.resolve()), model, digest, has_data, has_model)

    @property
    def is_built_in(self) -> bool:
        return not self.file

    @property
    def is_default(self) -> bool:
        """Whether it is the one that need not be named."""
        return self.is_built_in and self.name == DEFAULT

    @property
    def first(self) -> tuple[str, str] | None:
        """A task that can be trained before it in one command, and the option for its share."""
        return _BUILT_IN[self.name].first if self.is_built_in else None

    def next_step(self, run_dir: str) -> str:
        """What people do with a run of it that has finished; empty where nobody but they know."""
        return (
            _BUILT_IN[self.name].next_step.format(program=PROGRAM, run=run_dir)
            if self.is_built_in
            else ""
        )

    @property
    def data_identity(self) -> tuple[str, str]:
        """Whose data side it is, and the SHA-256 of that one's file: equal ones make equal batches."""
        if self.has_data or self.is_built_in:
            return self.name, self.sha256
        return DEFAULT, ""

    def data_side(self) -> type[DataSide]:
        """The class of its data half, imported.

        Raises:
            TaskError: the user's file can't be used; names its line.
        """
        if self.has_data:
            found = _checked(self, _DATA, DataSide)
            _form_of(found)
            return found
        return _named(_BUILT_IN[self.name if self.is_built_in else DEFAULT].data)

    def model_side(self) -> type[ModelSide]:
        """The class of its model half, imported.

        Raises:
            TaskError: the user's file can't be used, or has no such half.
        """
        if self.has_model:
            return _checked(self, self.model_name, ModelSide)
        if not self.is_built_in:
            raise TaskError(
                f"{self.name}: has a class {_DATA} and no class {_MODEL}. The speech model trains "
                "on batches of speech only: add a class Model, based on shared.task.ModelSide."
            )
        return _named(_BUILT_IN[self.name].model)

    def form(self) -> BatchForm:
        """What its batches look like.

        Raises:
            TaskError: the user's file can't be used, or declares what can't be.
        """
        if self.has_data:
            return _form_of(self.data_side())
        return _named(_BUILT_IN[self.name if self.is_built_in else DEFAULT].form)


_forms: dict[type[DataSide], BatchForm] = {}


def _form_of(data_side: type[DataSide]) -> BatchForm:
    """Made once: forms are compared by identity.

    Raises:
        TaskError: what is declared can't be.
    """
    if data_side in _forms:
        return _forms[data_side]
    taken = {WEIGHT, ROWS} & data_side.arrays.keys()
    if taken:
        problem = f"{', '.join(sorted(taken))} is an array of the engine. Choose another name"
    elif data_side.companion not in (None, "group"):
        problem = f'companion is {data_side.companion!r}; expected None or "group"'
    else:
        problem = data_side.form().problem()
    if problem:
        raise TaskError(f"{_line_of(data_side)}: {problem}.")
    return _forms.setdefault(data_side, data_side.form())


def _line_of(found: type) -> str:
    """Where a class is written."""
    try:
        source = inspect.getsourcefile(found) or ""
        return (
            f"{Path(source).name} line {inspect.getsourcelines(found)[1]} (class {found.__name__})"
        )
    except (OSError, TypeError):
        return f"class {found.__name__}"


def _names_in(path: Path, content: bytes) -> set[str]:
    """The classes at the top level of a file, imported ones and other names included.

    Raises:
        ConfigError: it is not Python.
    """
    try:
        tree = ast.parse(content, str(path))
    except (SyntaxError, ValueError) as error:
        line = f" line {error.lineno}" if isinstance(error, SyntaxError) else ""
        words = error.msg if isinstance(error, SyntaxError) else error
        raise ConfigError(f"{path.name}{line}: is not valid Python ({words}).") from None
    names: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name for alias in statement.names)
        elif isinstance(statement, ast.Assign):
            names.update(each.id for each in statement.targets if isinstance(each, ast.Name))
    return names


def _checked(task: Task, name: str, kind: type[_Half]) -> type[_Half]:
    """A class of the user's file, with everything that its kind asks for.

    Raises:
        TaskError: names the line and what is missing.
    """
    found = getattr(load_users_file(task.file, task.sha256), name)
    if not (inspect.isclass(found) and issubclass(found, kind)):
        raise TaskError(
            f"{task.name}: {name} is not based on shared.task.{kind.__name__}. Write "
            f"'class {name}({kind.__name__}):'."
        )
    missing = [
        method for method in _REQUIRED[kind] if getattr(found, method) is getattr(kind, method)
    ]
    if missing:
        try:
            line = f" line {inspect.getsourcelines(found)[1]}"
        except (OSError, TypeError):
            line = ""
        raise TaskError(
            f"{task.name}{line}: class {name} has no {' and no '.join(missing)}. Every "
            f"{kind.__name__} needs {', '.join(_REQUIRED[kind])}."
        )
    return found


_REQUIRED: dict[type, tuple[str, ...]] = {
    DataSide: ("arrays", "examples", "read", "row"),
    ModelSide: ("build", "losses"),
}
