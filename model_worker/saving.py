"""Saving: when the disk lets a checkpoint be written, and what becomes of the run when it does not."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from model_worker.checkpoints.files import NotFiniteError
from model_worker.checkpoints.store import CheckpointStore
from model_worker.training.roll_backs import RollBack
from model_worker.training.state import Identity, Position, groups_of, state_of
from model_worker.training.step import TrainStep
from model_worker.watching.progress_log import ProgressLog
from shared.errors import CheckpointError, TandemError
from shared.plan.exclusions import Exclusions
from shared.worker.reports import Reporter

log = logging.getLogger(__name__)

_LAST_SAVE_AGAIN_AFTER_S = (1.0, 3.0)


class Saving:
    """Writes the checkpoints of a training that goes on, and knows which step is safe."""

    def __init__(
        self,
        store: CheckpointStore,
        train_step: TrainStep,
        position: Position,
        exclusions: Callable[[], Exclusions],
        identity: Identity,
        progress: ProgressLog,
        reporter: Reporter,
        stop_on_error: bool,
    ):
        """`exclusions()`: those of the run by now. The logs in `progress` are saved with it."""
        self._store = store
        self._train_step = train_step
        self._exclusions = exclusions
        self._identity = identity
        self._progress = progress
        self._reporter = reporter
        self._stop_on_error = stop_on_error
        self._problem = ""  # of the save before, if it failed
        self.saved_step = position.step or None  # a position beyond 0 is a checkpoint's
        # Steps that changed the weights of the last checkpoint.
        self.num_applied = int(train_step.num_applied.numpy())

    def save(self, position: Position) -> None:
        """Save, if the disk lets it; says so where it does not.

        Raises:
            RollBack: there is nothing in the state that is worth saving.
            TandemError: it could not be saved, and the run is to stop then.
        """
        self._progress.flush(durable=True)
        try:
            self._write(position)
        except NotFiniteError as error:
            # No later save could do better. Which batch did it is not known, so none is left out.
            self._reporter.say(f"⚠️  Going back to the last checkpoint. {error}")
            raise RollBack from error
        except CheckpointError as error:
            if str(error) != self._problem:
                self._reporter.say(f"⚠️  The checkpoint was not saved: {error}")
            self._problem = str(error)
            if self._stop_on_error:
                raise TandemError(f"the checkpoint could not be saved: {error}") from error
            return
        self.saved_step, self._problem = position.step, ""

    def save_the_last(self, position: Position) -> None:
        """Save what a run ends with: it has not finished without, whatever on_save_error says.

        Raises:
            TandemError: it could not be saved, not even a little later.
        """
        for pause_s in (*_LAST_SAVE_AGAIN_AFTER_S, None):
            self.save(position)
            if self.saved_step == position.step:
                return
            if pause_s is not None:
                time.sleep(pause_s)
        raise TandemError(
            f"the last checkpoint, of step {position.step}, could not be saved. "
            f"{self._problem} Once that is mended, the same command goes on from the one before."
        )

    def mark_best(self, step: int, loss: float) -> None:
        """Keep the checkpoint of this step as the best one."""
        try:
            self._store.mark_best(step, loss)
        except CheckpointError as error:
            self._reporter.say(f"⚠️  The best checkpoint was not kept: {error}")

    def _write(self, position: Position) -> None:
        state = state_of(self._train_step, position, self._exclusions().to_json(), self._identity)
        started_s = time.perf_counter()
        path = self._store.save(position.step, groups_of(self._train_step), state)
        self.num_applied = state["counters"]["num_applied"]
        log.info("saved %s in %.2f s", path, time.perf_counter() - started_s)
