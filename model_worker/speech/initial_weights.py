"""Fine-tuning: a new run that begins with the averaged weights of another one.

Symbols are matched by what they stand for, not by their number, so the new corpus may have others.
Speakers need no match at all: a voice is what its reference clip says.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from model_worker.checkpoints.store import Checkpoint
from model_worker.speech.speaking.voice_checkpoint import averaged_checkpoint
from model_worker.training.step import TrainStep
from shared.errors import CheckpointError
from shared.plan.index import Index
from shared.run.directory import RunDirectory

_MOST_NAMED = 12


def load_initial_weights(
    path: str, train_step: TrainStep, symbol_table: list[str], say: Callable[[str], None]
) -> None:
    """Put the weights of the run in `path` into a new run's step, and say what was not there.

    Raises:
        InputError, CheckpointError: the run has no weights that can be used.
    """
    run = RunDirectory(path)
    checkpoint = averaged_checkpoint(run, lambda text: say(f"⚠️  {text}"))
    known = Index.load(run.index).symbol_table
    begin_with(checkpoint, known, train_step, symbol_table)
    say(f"🌱 Beginning with the weights of {path} (step {checkpoint.step})")
    new = [symbol for symbol in symbol_table if symbol not in set(known)]
    if new:
        shown = " ".join(new[:_MOST_NAMED]) + (" …" if len(new) > _MOST_NAMED else "")
        say(f"   Not in it, and learned from nothing: {len(new)} symbols ({shown})")


def begin_with(
    checkpoint: Checkpoint, known: list[str], train_step: TrainStep, symbol_table: list[str]
) -> None:
    """Give weights and averages the checkpoint's; `known` is the symbol table it was made with.

    Raises:
        CheckpointError: they are of another model.
    """
    optimizer, arrays = train_step.optimizer, checkpoint.groups["ema"]
    fitting = []
    for name, weight in zip(optimizer.names, optimizer.weights, strict=True):
        array = arrays.get(name)
        is_table = name.endswith(".embeddings") and array is not None
        if is_table and array.shape[1:] == weight.shape[1:]:
            array = _matched_rows(array, known, weight.numpy(), symbol_table)
        if array is None or tuple(array.shape) != tuple(weight.shape):
            raise CheckpointError(
                f"{checkpoint.path}: its weights do not fit this model. --init-from needs a run of "
                "the same --model-size, trained by this version."
            )
        fitting.append(array)
    for array, weight, average in zip(fitting, optimizer.weights, optimizer.averages, strict=True):
        weight.assign(array)
        average.assign(array)


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
