"""The vocoder that was trained with a voice, in its run directory, and whether to speak with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from model_worker.vocoder.judgement import read_judgement
from model_worker.vocoder.trained_run import TASK, TrainedRun, is_run, trained_run
from shared.errors import CheckpointError, InputError


class Choice(NamedTuple):
    """run: None for Griffin-Lim. why: a sentence for people; empty where there was no choice."""

    run: TrainedRun | None
    why: str = ""


def own_vocoder(run: str | Path, say: Callable[[str], None] = lambda text: None) -> Choice:
    """What a voice's run is to be spoken with; `say` is told of checkpoints that are passed over."""
    folder = Path(run) / TASK
    if not is_run(folder):
        return Choice(None)
    try:
        judgement = read_judgement(folder / "samples")
        if judgement is None:
            return Choice(None, f"Griffin-Lim speaks: the vocoder in {folder} was not judged yet.")
        if not judgement.is_better:
            return Choice(None, f"Griffin-Lim speaks. Of the vocoder: {judgement.in_words}")
        return Choice(trained_run(folder, say), f"Its vocoder speaks. {judgement.in_words}")
    except (InputError, CheckpointError) as error:
        return Choice(None, f"Griffin-Lim speaks: {error}")
