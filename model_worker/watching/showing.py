"""What people see of a model while it learns: samples/step-000500/, made at each validation.

It is made at once, for it needs the averaged weights of this step; files are written by a thread
of its own while training goes on. Nothing that goes wrong here ends the run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import tensorflow as tf

from model_worker.training.step import TrainStep
from model_worker.watching.summaries import Summaries
from shared.task.model_side import Viewer

log = logging.getLogger(__name__)


class Showing:
    """Has the task's viewer keep examples, and show what the averaged weights make of them."""

    def __init__(
        self,
        viewer: Viewer | None,
        train_step: TrainStep,
        folder: Path,
        summaries: Summaries,
        say: Callable[[str], None] = lambda text: None,
    ):
        """`say` is told of the first samples that can't be made; the log has each."""
        self._viewer = viewer
        self._train_step = train_step
        self._folder = folder
        self._summaries = summaries
        self._say = say
        self._has_failed = False
        self._writer = ThreadPoolExecutor(1, "samples")
        self._last_written: Future | None = None

    def keep(self, batch: dict[str, tf.Tensor]) -> None:
        """A validation batch comes by."""
        if self._viewer is None:
            return
        try:
            self._viewer.keep(batch)
        except Exception:
            self._note_failure("The samples could not be chosen")

    def show(self, step: int) -> None:
        """Make what there is to show of this step, and have it written."""
        if self._viewer is None:
            return
        started_s = time.perf_counter()
        try:
            own = self._train_step.swap_in_averages()
            try:
                made = self._viewer.make(self._folder)
            finally:
                self._train_step.restore_weights(own)
        except Exception:
            self._note_failure(f"The samples of step {step} could not be made")
            return
        if made is not None:
            log.info("made the samples in %.2f s", time.perf_counter() - started_s)
            self._last_written = self._writer.submit(self._write, self._viewer, step, made)

    def _write(self, viewer: Viewer, step: int, made: Any) -> None:
        try:
            step_folder = self._folder / f"step-{step:06d}"
            step_folder.mkdir(parents=True, exist_ok=True)
            for shown in viewer.write(made, self._folder, step_folder):
                self._summaries.show(step, shown)
        except Exception:
            self._note_failure(f"The samples of step {step} could not be written")

    def close(self, patience_s: float | None = None) -> None:
        """Wait until everything is written, or so many seconds for each kind of it."""
        if self._last_written is not None:
            wait([self._last_written], patience_s)
        self._writer.shutdown(wait=False)
        self._summaries.close(patience_s)

    def _note_failure(self, what: str) -> None:
        log.exception("%s; the run goes on", what)
        if not self._has_failed:
            self._has_failed = True
            self._say(f"⚠️  {what}; the run goes on (see model_worker.log)")
