"""What a task's `corpus` returned, held against what an index can keep."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from shared.errors import TaskError
from shared.plan.index import DTYPES, ENGINES_NAMES, RaggedColumn, StringColumn
from shared.task import Corpus, DataSide
from shared.task.users_file import line_of


def check_corpus(corpus: Any, side: DataSide, rows: int) -> None:
    """See that an index can be made of a corpus, and that nothing of the engine's is overwritten.

    Raises:
        TaskError: names the method and what is wrong.
    """
    problem = _problem(corpus, side, rows)
    if problem:
        raise TaskError(f"{line_of(side.corpus)}: {problem}.")


def _problem(corpus: Any, side: DataSide, rows: int) -> str:
    if not isinstance(corpus, Corpus):
        return f"it returned {type(corpus).__name__}; expected shared.task.Corpus"
    for name in (*corpus.columns, *corpus.tables, *corpus.facts):
        if name in ENGINES_NAMES or "." in name:
            return f"the name {name} is taken by the engine. Choose another for it"
    for name in (*side.lengths, side.group_column):
        if name not in corpus.columns:
            return f"it has no column {name}, which the plan of the batches needs"
    for name, column in corpus.columns.items():
        values = column
        if isinstance(column, StringColumn):
            values = column.blob
        elif isinstance(column, RaggedColumn):
            values = column.values
        if not isinstance(values, np.ndarray) or values.ndim != 1 or len(column) != rows:
            return (
                f"column {name} is no array, StringColumn or RaggedColumn of {rows} entries, one "
                f"for each example"
            )
        if values.dtype not in DTYPES:
            return f"column {name} is {values.dtype}, which an index can't hold"
    for name, table in corpus.tables.items():
        if not isinstance(table, np.ndarray) or table.ndim < 2 or table.dtype not in DTYPES:
            return f"table {name} is no array of numbers with two dimensions or more"
    try:
        json.dumps([corpus.facts, corpus.remarks])
    except (TypeError, ValueError) as error:
        return f"its facts or remarks are not what JSON holds ({error})"
    return ""
