"""Fine-tuning: embeddings of another run, matched by what their symbols stand for.

A symbol's number may differ, for the new corpus may have others. Speakers need no match at all: a
voice is what its reference clip says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import keras
import numpy as np

_MOST_NAMED = 12


def with_matched_symbols(
    arrays: Mapping[str, np.ndarray],
    variables: Sequence[keras.Variable],
    known: list[str],
    symbol_table: list[str],
) -> dict[str, np.ndarray]:
    """Another run's weights, with an embedding for each symbol of this one.

    Args:
        arrays: by name, in the order of `variables`, which are this model's.
        known: the symbol table that they were made with.
    """
    fitting = dict(arrays)
    for (name, array), variable in zip(sorted(arrays.items()), variables, strict=False):
        if name.endswith(".embeddings") and array.shape[1:] == tuple(variable.shape)[1:]:
            fitting[name] = _matched_rows(array, known, variable.numpy(), symbol_table)
    return fitting


def _matched_rows(
    array: np.ndarray, known: list[str], initial: np.ndarray, symbol_table: list[str]
) -> np.ndarray:
    """The embeddings of the new table: those of the other run where it knew the symbol."""
    row_of = {symbol: row for row, symbol in enumerate(known)}
    matched = initial.copy()
    for row, symbol in enumerate(symbol_table):
        if symbol in row_of:
            matched[row] = array[row_of[symbol]]
    return matched


def new_symbols_in_words(known: list[str], symbol_table: list[str]) -> str:
    """What the other run has not learned, as a sentence; empty where that is nothing."""
    new = [symbol for symbol in symbol_table if symbol not in set(known)]
    if not new:
        return ""
    shown = " ".join(new[:_MOST_NAMED]) + (" …" if len(new) > _MOST_NAMED else "")
    return f"Not in it, so learned from scratch: {len(new)} symbols ({shown})"
