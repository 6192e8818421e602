"""What a task is: two halves, written against this package and nothing else of the engine.

The engine makes batch n, moves it, trains on it, keeps it safe and shows it. A task says what an
example is, how it is read, what is computed of it on the data GPU (`DataSide`, in the preparation
and in the data process), and what is learned from it (`ModelSide`, in the model process). The
halves are separate because different processes run them, and so that a file can bring one of them
and use the other of a task that is built in.

Every promise of the engine holds for a task whose methods are pure: what they return depends on
their arguments, the file that is read and the version of the task, and on nothing else.
`launcher.py validate --task FILE` shows whether that is so.
"""

from shared.task.batch import Array, BatchForm, BatchShape
from shared.task.data_side import DataSide, stacked
from shared.task.examples import (
    BAD,
    FILTERED,
    Companion,
    Corpus,
    Example,
    Indexed,
    LeaveOut,
    LeftOut,
    Looked,
    Source,
    Survey,
)
from shared.task.model_side import Amount, Facts, ModelSide, Shown, Viewer

__all__ = [
    "BAD",
    "FILTERED",
    "Amount",
    "Array",
    "BatchForm",
    "BatchShape",
    "Companion",
    "Corpus",
    "DataSide",
    "Example",
    "Facts",
    "Indexed",
    "LeaveOut",
    "LeftOut",
    "Looked",
    "ModelSide",
    "Shown",
    "Source",
    "Survey",
    "Viewer",
    "stacked",
]
