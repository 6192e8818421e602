"""The outer loop: batches in stream order to steps, validations, logs and checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable

from model_worker.replicas.exchange import ReplicaLost
from model_worker.replicas.team import Team
from model_worker.replicas.words import Total
from model_worker.saving import Saving
from model_worker.stream.device_prefetch import DeviceBatch, DevicePrefetch
from model_worker.stream.receiver import Receiver
from model_worker.stream.share import Share
from model_worker.training.roll_backs import RollBack
from model_worker.training.schedule import Schedule
from model_worker.training.skipped_batches import SkippedBatches
from model_worker.training.state import Position
from model_worker.training.step import TrainStep
from model_worker.training.validation import Validation
from model_worker.watching.liveness import Liveness
from model_worker.watching.progress_log import Budget, ProgressLog
from model_worker.watching.showing import Showing
from shared.config.settings import Config
from shared.plan.plan import Plan
from shared.worker.contract import EXIT_FINISHED, EXIT_INTERRUPTED, EXIT_TO_BEGIN_AGAIN
from shared.worker.reports import Reporter
from shared.worker.want_of_memory import is_want_of_memory, too_large

_WAIT_S = 0.5
_STEPS_FOR_A_PACE = 16
_LAST_SAVE_S = 3.0  # of a budget in minutes, kept for the last checkpoint
_LAST_VALIDATION_S = 2.0  # and for the last validation, as long as none has been timed


class _StepAbandoned(Exception):
    """The run is to stop, or is out of time, while the other replicas are waited for."""


@dataclasses.dataclass
class LoopParts:
    """What the loop works with."""

    config: Config
    plan: Plan
    share: Share  # of the stream's batches
    team: Team | None  # of replicas, where there are several
    receiver: Receiver
    prefetch: DevicePrefetch
    train_step: TrainStep
    validation: Validation
    schedule: Schedule
    progress: ProgressLog
    skipped: SkippedBatches
    reporter: Reporter
    saving: Saving
    showing: Showing
    should_stop: Callable[[], bool]
    started_s: float  # of the command, by `machine_s`

    def close(self, patience_s: float | None) -> None:
        """Give back threads and files; wait so long for what is being drawn (None: to its end)."""
        self.prefetch.close()
        self.showing.close(patience_s)
        self.progress.close()


class TrainingLoop:
    """Trains from `position` to the end of the budget, or until told to stop."""

    def __init__(self, parts: LoopParts, position: Position):
        self._parts = parts
        self._position = position
        self._training = parts.config.training
        position.go_on_in_command(parts.started_s)
        # The batch of the stream that is next. `position.next_batch` follows at the end of each
        # group and validation, where a checkpoint can go on; in between, it stands still.
        self._cursor = position.next_batch
        self._in_group = 0
        # Batches of a step that are this replica's.
        self._own_batches = self._training.grad_accum // parts.share.num_replicas
        # The curve of a checkpoint is kept until this process has a pace of its own.
        self._fit_from = position.step + _STEPS_FOR_A_PACE if position.fitted_steps else 0
        self._begun_step = position.step
        self._validation_s = _LAST_VALIDATION_S if parts.plan.num_validation_batches else 0.0
        self._validating_s = 0.0  # so far, of the validation under way
        self._liveness = Liveness(parts.reporter, parts.progress.sample_busy)
        self._shapes: set = set()

    def run(self) -> int:
        """Returns the exit code.

        Raises:
            RollBack: start again from the last checkpoint.
            TandemError: the run can't go on.
        """
        try:
            return self._run()
        except ReplicaLost as lost:
            return self._end_without(lost)

    def _run(self) -> int:
        while True:
            if self._parts.should_stop():
                return self._end(EXIT_INTERRUPTED)
            if self._budget_is_used():
                self._say_if_time_was_used_up_before()
                return self._end(EXIT_FINISHED)
            batch = self._next_batch()
            if batch is None:
                continue  # stopped, or out of time, while waiting
            self._parts.receiver.taken()
            kind = self._parts.plan.layout.place(self._cursor).kind
            number = self._cursor
            try:
                if kind == "train":
                    with contextlib.suppress(_StepAbandoned):
                        self._train(batch)
                else:
                    self._validate(batch)
            except Exception as error:
                if is_want_of_memory(error):
                    shape = self._parts.plan.shape(number)
                    raise too_large(error, shape, self._training.grad_accum) from error
                raise

    @property
    def step(self) -> int:
        """Steps done so far, those of earlier processes included."""
        return self._position.step

    @property
    def needs_validation(self) -> bool:
        """Whether the weights that the budget ended with have not been validated."""
        return bool(
            self._parts.plan.num_validation_batches
            and self._training.max_minutes
            and self._position.step
            and not self._position.is_validated
        )

    def validate_at_the_end(self, receiver: Receiver, prefetch: DevicePrefetch) -> None:
        """Validate once more, on batches of the clock's last validation."""
        self._cursor = self._position.next_batch
        for _ in range(self._parts.plan.num_validation_batches):
            batch = None
            while batch is None:
                if self._parts.should_stop():
                    self._parts.validation.abandon()
                    return
                batch = prefetch.get(_WAIT_S)
                if batch is None:
                    self._liveness.waits(receiver, self._cursor)
            self._liveness.validates()
            self._liveness.moved(self._cursor)
            receiver.taken()
            self._parts.validation.add(batch.tensors)
        self._finish_validation()
        self._parts.progress.flush()

    def _remaining_s(self) -> float:
        kept_s = _LAST_SAVE_S + self._validation_s
        self._position.look_at_clock()
        return self._training.minutes * 60 - kept_s - self._position.elapsed_s

    def _budget_is_used(self) -> bool:
        end = self._parts.plan.layout.num_stream_batches
        if end is not None and self._cursor >= end:
            return True
        if self._training.early_stopping and (
            self._position.validations_since_best >= self._training.early_stopping
        ):
            self._parts.reporter.say(
                f"🛑 {self._position.validations_since_best} validations in a row brought no improvement; "
                f"ending, as --early-stopping {self._training.early_stopping} says"
            )
            return True
        if not self._training.max_minutes:
            return False
        if self._remaining_s() <= 0:
            return True
        if self._position.step < self._parts.schedule.total_steps:
            return False
        self._say_if_time_is_left()
        return True

    def _say_if_time_is_left(self) -> None:
        if self._parts.schedule.leaves_time:
            self._parts.reporter.say(
                f"✅ Ending at step {self._position.step} before the time is up: with this much data, "
                "more steps would not help\n   --max-steps trains for longer all the same"
            )

    def _say_if_time_was_used_up_before(self) -> None:
        """A run that ends without one more step has a reason, and whoever started it wants it."""
        minutes, step = self._training.minutes, self._position.step
        if not minutes or step != self._begun_step or self._remaining_s() > 0:
            return
        self._parts.reporter.say(
            f"✅ Its {minutes:g} minutes are used up, at step {step}. A larger --max-minutes goes "
            "on from there"
            if step
            else f"⚠️  {minutes:g} minutes were over before the first step: start-up took them all. "
            "Give more with --max-minutes"
        )

    def _next_batch(self) -> DeviceBatch | None:
        started_s = time.perf_counter()
        while True:
            batch = self._parts.prefetch.get(_WAIT_S)
            if batch is not None:
                self._parts.progress.waited(batch, (time.perf_counter() - started_s) * 1000)
                return batch
            self._liveness.waits(self._parts.receiver, self._cursor)
            if self._is_to_end():
                return None

    def _is_to_end(self) -> bool:
        out_of_time = self._training.max_minutes and self._remaining_s() <= 0
        return bool(self._parts.should_stop() or out_of_time)

    def _wait_for_replicas(self) -> None:
        """Others are not as far; a step that would come too late for this one is not taken."""
        if self._is_to_end():
            raise _StepAbandoned
        self._liveness.waits_for_replicas(self._cursor)

    def _train(self, batch: DeviceBatch) -> None:
        parts, position = self._parts, self._position
        started_s = time.perf_counter()
        shape = parts.plan.shape(self._cursor)
        is_first = shape not in self._shapes
        if is_first:
            self._shapes.add(shape)
            self._liveness.compiles()
        else:
            self._liveness.trains()
        rate = parts.schedule.rate(position.step)
        self._in_group += 1
        is_last = self._in_group == self._own_batches
        skip = parts.skipped.contains(self._cursor)
        ema_decay = self._training.ema_decay or parts.schedule.ema_decay()
        if skip:
            parts.progress.trained(batch, self._cursor, skip)
        elif parts.team is None:
            parts.train_step(batch.tensors, position.step, rate, ema_decay, is_last)
            parts.progress.trained(batch, self._cursor, skip)
        else:
            word = Total(0, rate, ema_decay)
            place = (self._in_group - 1) * parts.share.num_replicas
            for each in parts.team.train(
                batch, self._cursor, position.step, place, word, is_last, self._wait_for_replicas
            ):
                parts.progress.note(each)
        self._cursor = parts.share.after(self._cursor)
        self._liveness.moved(self._cursor)
        if is_last:
            self._in_group = 0
            self._after_step(rate)
        self._liveness.allow_for(time.perf_counter() - started_s, is_first)
        if is_last:
            self._save_if_due()

    def _after_step(self, rate: float) -> None:
        parts, position = self._parts, self._position
        position.step += 1
        position.is_validated = False
        position.next_batch = self._cursor
        position.look_at_clock()
        step_s = parts.progress.step_seconds()
        if self._training.max_minutes and position.step >= self._fit_from:
            parts.schedule.fit(position.step, position.elapsed_s, self._remaining_s(), step_s)
            position.fitted_steps = parts.schedule.total_steps
        if position.step % self._training.log_every == 0 or position.step == 1:
            self._look_at_numbers()
            if parts.team is not None:
                parts.progress.note_exchange(parts.team.take_exchange_ms(), parts.team.others)
            parts.progress.log_step(position, rate, self._budget(step_s))

    def _save_if_due(self) -> None:
        every = self._training.checkpoint_every
        if every and self._position.step % every == 0 and not self._validation_is_next():
            started_s = time.perf_counter()
            self._save()
            self._parts.progress.exclude(time.perf_counter() - started_s)

    def _validation_is_next(self) -> bool:
        end = self._parts.plan.layout.num_stream_batches
        if end is not None and self._cursor >= end:
            return False
        return self._parts.plan.layout.place(self._cursor).kind == "validation"

    def _budget(self, step_s: float) -> Budget:
        total = self._parts.schedule.total_steps
        if self._training.max_minutes:
            left_s = max(0.0, self._remaining_s())
            if self._parts.schedule.leaves_time:
                left_s = min(left_s, max(0, total - self._position.step) * step_s)
            return Budget(total, step_s, left_s, not self._parts.schedule.leaves_time)
        return Budget(total, step_s, max(0, total - self._position.step) * step_s)

    def _look_at_numbers(self) -> None:
        """Roll back when the gradients have stopped being numbers.

        Raises:
            RollBack: more steps in a row than allowed were skipped.
        """
        in_row = int(self._parts.train_step.nonfinite_in_row.numpy())
        if in_row <= self._training.max_nonfinite_steps:
            return
        layout, accum = self._parts.plan.layout, self._training.grad_accum
        first = layout.stream_index_of_train((self._position.step - in_row) * accum)
        last = layout.stream_index_of_train(self._position.step * accum - 1)
        self._parts.skipped.add(first, last)
        self._parts.reporter.say(
            f"⚠️  {in_row} steps in a row had no finite gradient: going back to the last "
            f"checkpoint and skipping batches {first} to {last}"
        )
        raise RollBack

    def _validate(self, batch: DeviceBatch) -> None:
        parts = self._parts
        started_s = time.perf_counter()
        self._liveness.validates()
        parts.validation.add(batch.tensors)
        self._cursor = parts.share.after(self._cursor)
        self._liveness.moved(self._cursor)
        if self._validation_is_next():
            self._validating_s += time.perf_counter() - started_s
        else:
            self._finish_validation()
            self._validation_s = self._validating_s + time.perf_counter() - started_s
            self._validating_s = 0.0
        parts.progress.exclude(time.perf_counter() - started_s)

    def _finish_validation(self) -> None:
        parts, position = self._parts, self._position
        loss = parts.validation.finish()
        position.is_validated = True
        is_best = position.best_loss is None or loss < position.best_loss
        position.best_loss = loss if is_best else position.best_loss
        position.validations_since_best = 0 if is_best else position.validations_since_best + 1
        position.next_batch = self._cursor
        parts.progress.log_validation(position, parts.validation.last, parts.validation.judged_by)
        self._save()
        if parts.saving.saved_step == position.step:
            if is_best:
                parts.saving.mark_best(position.step, loss)
            self._liveness.shows()
        if not parts.should_stop():
            parts.showing.show(position.step)

    def _save(self, the_last: bool = False) -> None:
        """Save what there is.

        Raises:
            RollBack: there is nothing in the state that is worth saving.
            TandemError: it could not be saved, and the run is to stop then.
        """
        self._look_at_numbers()
        self._liveness.saves()
        saving = self._parts.saving
        (saving.save_the_last if the_last else saving.save)(self._position)

    def _drop_group(self) -> None:
        if self._in_group:
            self._parts.train_step.drop_group()
            self._in_group = 0
        self._parts.validation.abandon()

    def _end_without(self, lost: ReplicaLost) -> int:
        """No step can be made whole any more: save the last one, for all to begin again from it."""
        say = self._parts.reporter.say
        say(f"⚠️  {lost}: all replicas begin again from step {self._position.step}")
        self._drop_group()
        if self._parts.saving.saved_step != self._position.step:
            self._position.look_at_clock()
            self._save()
        self._parts.progress.flush()
        return EXIT_INTERRUPTED if self._parts.should_stop() else EXIT_TO_BEGIN_AGAIN

    def _end(self, code: int) -> int:
        self._drop_group()
        if self._parts.saving.saved_step != self._position.step:
            self._position.look_at_clock()
            self._save(the_last=True)
        self._liveness.closes()
        self._parts.progress.flush()
        self._parts.progress.say_verdict()
        return code
