"""One session of the model process: restore, receive, train, save, from the parts of a run."""

from __future__ import annotations

import contextlib
import logging

import keras
import tensorflow as tf

from model_worker.checkpoints.files import Checkpoint
from model_worker.checkpoints.store import CheckpointStore
from model_worker.model_parts import ModelParts
from model_worker.replicas.agreement import FirstAgrees
from model_worker.replicas.exchange import Hub, ReplicaLost
from model_worker.replicas.team import Team
from model_worker.saving import Saving
from model_worker.start_delay import wait_for_start
from model_worker.stream.device_prefetch import DevicePrefetch
from model_worker.stream.receiver import Receiver
from model_worker.surroundings import Surroundings
from model_worker.training.bad_examples import BadExamples
from model_worker.training.begin_from import begin_from_run
from model_worker.training.roll_backs import RollBack, RollBacks
from model_worker.training.schedule import Schedule
from model_worker.training.shared_step import SharedStep
from model_worker.training.skipped_batches import SkippedBatches
from model_worker.training.state import Position, restore
from model_worker.training.step import TrainStep
from model_worker.training.validation import Validation
from model_worker.training_loop import LoopParts, TrainingLoop
from model_worker.watching.liveness import NO_DEADLINE_S
from model_worker.watching.progress_log import ProgressLog
from model_worker.watching.quarantine import Quarantine
from model_worker.watching.showing import Showing
from model_worker.watching.summaries import Summaries
from shared.config.option import decided
from shared.plan.exclusions import Exclusions
from shared.plan.plan_of_run import total_steps
from shared.plan.stream_layout import LAST_VALIDATION
from shared.run.json_lines import cut_back
from shared.run.writer import Writer
from shared.stream.endpoints import exchange_endpoint, exclusion_endpoint, remove_socket
from shared.worker.contract import (
    COMPILING,
    EXIT_FINISHED,
    EXIT_INTERRUPTED,
    EXIT_TO_BEGIN_AGAIN,
    STARTING,
    WAITING_FOR_REPLICAS,
)
from shared.worker.reports import LineKind

log = logging.getLogger(__name__)

_FINE_TUNING_SHARE = 0.5  # of the peak rate, with --init-from: what was learned is to be kept
_STARTING_DEADLINE_S = 300.0
_COMPILING_DEADLINE_S = 1800.0
_STOP_PATIENCE_S = 2.0  # with pictures and with TensorBoard


# What the data processes are told by which exit code; by any other, or none, the run goes on.
_REASONS = {EXIT_FINISHED: "finished", EXIT_INTERRUPTED: "interrupted", EXIT_TO_BEGIN_AGAIN: ""}


class _Stopped(Exception):
    """The run is to stop while the other replicas are waited for."""


class Session(ModelParts):
    """Builds everything once, and trains until the end or a roll-back.

    Where there are several replicas it is the first one, which decides for all.
    """

    def __init__(self, surroundings: Surroundings, started_s: float, writer: Writer | None = None):
        """`writer`: this process's right to write, where it has one already."""
        super().__init__(surroundings)
        run, config = self._run, self._config
        self._started_s = started_s
        self._writer = writer or Writer(run)
        self._store = CheckpointStore(
            run.checkpoints, config.training.keep_checkpoints, before_commit=self._writer.check
        )
        self._store.remove_leftovers()
        self._quarantine = Quarantine(run.quarantine, self._index)
        self._roll_backs = RollBacks()
        self._identity = {
            "index": self._index.fingerprint,
            "stream": self._plan.with_layout(
                config.training.validate_every * config.training.grad_accum
            ).fingerprint(),
            **self._task.identity(),
            **decided(config.training, "stream", "model"),
        }
        if not self._task_found.is_built_in:
            self._identity["task"] = self._task_found.name  # of its edits the launcher knows
        self._team: Team | None = None
        self._agreement: FirstAgrees | None = None
        if self._num_replicas > 1:
            self._agreement = FirstAgrees(exclusion_endpoint(self._run_id), self._num_replicas)
            hub = Hub(exchange_endpoint(self._run_id), self._num_replicas)
            self._team = Team(hub, config.training.deterministic)

    def close(self) -> None:
        """No other replica hears of this one any more."""
        if self._team is not None and self._agreement is not None:
            self._team.close()
            self._agreement.close()
            remove_socket(exchange_endpoint(self._run_id))
            remove_socket(exclusion_endpoint(self._run_id))

    def train(self) -> int | None:
        """Train from the last checkpoint; None after a roll-back.

        Raises:
            TandemError: the run can't go on.
        """
        config = self._config
        self._reporter.phase(STARTING, _STARTING_DEADLINE_S)
        self._seed()
        with tf.device(self._device):
            model = self._build_model()
            train_step = self._make_step(model)
            shared = self._make_shared(train_step) if self._team else None
        checkpoint = self._store.load_latest(lambda text: self._reporter.say(f"⚠️  {text}"))
        position = Position()
        if checkpoint is not None:
            position = restore(checkpoint, train_step, self._identity)
            train_step.settle_loss_scale()
            # The budget may have changed since, and with it where validations fall.
            position.next_batch = self._plan.layout.index_after(
                position.step * config.training.grad_accum, position.is_validated
            )
            self._reporter.say(f"↩️  Continuing from step {position.step} ({checkpoint.path})")
        elif config.training.init_from:
            begin_from_run(
                config.training.init_from, model, train_step, self._task, self._index,
                self._reporter.say,
            )  # fmt: skip
        self._cut_logs(position)
        exclusions = self._known_exclusions(checkpoint)
        end = self._plan.layout.num_stream_batches
        is_over = end is not None and position.next_batch >= end
        receiver = self._make_receiver(position.next_batch, end, exclusions)
        receiver.start()
        if not is_over:
            self._reporter.phase(COMPILING, _COMPILING_DEADLINE_S)
            self._settle_compiling(train_step, position)
            (shared or train_step).warm_up()  # while the data processes start and fill the queue
        self._should_stop.now_at_work()
        parts: LoopParts | None = None
        reason = ""
        try:
            if is_over:
                self._reporter.say(
                    f"✅ Its {position.step} steps are trained already. A larger --max-steps or "
                    "--epochs goes on from there"
                )
            else:
                if self._team and shared:  # their queues fill while this one waits for its own
                    self._begin_together(self._team, shared, train_step, receiver, position)
                wait_for_start(
                    receiver, config, checkpoint is not None, self._reporter, self._should_stop
                )
            self._reporter.phase(STARTING, _STARTING_DEADLINE_S)
            parts = self._make_parts(model, train_step, receiver, position)
            loop = TrainingLoop(parts, position)
            code = loop.run()
            if self._team and code != EXIT_TO_BEGIN_AGAIN:
                self._team.stop(code)
            parts.prefetch.close()
            if code == EXIT_FINISHED and loop.needs_validation:
                receiver = self._validate_at_the_end(loop, receiver)
            reason = _REASONS[code]
            return code
        except ReplicaLost as lost:  # before the first step: there is nothing to save
            log.info("%s; beginning again", lost)
            return EXIT_TO_BEGIN_AGAIN
        except RollBack:
            if self._should_stop():  # whoever goes on from here goes back first
                reason = "interrupted"
                return EXIT_INTERRUPTED
            assert parts is not None  # it is its loop that goes back
            self._roll_backs.note(loop.step, parts.saving.num_applied, train_step.why_it_broke())
            return None
        finally:
            receiver.stop(reason)
            if parts is not None:
                parts.close(_STOP_PATIENCE_S if self._should_stop() else None)

    def _begin_together(
        self,
        team: Team,
        shared: SharedStep,
        train_step: TrainStep,
        receiver: Receiver,
        position: Position,
    ) -> None:
        """Wait for the other replicas, and have them begin with the state of this one.

        A stop ends the waiting, and is met by whoever trains then.
        """

        def on_wait() -> None:
            self._reporter.progress(position.next_batch)
            if self._should_stop():
                raise _Stopped

        self._reporter.phase(WAITING_FOR_REPLICAS, NO_DEADLINE_S)
        skipped = self._skipped_batches().stretches
        with contextlib.suppress(_Stopped):
            team.begin(shared, train_step, position, receiver.exclusions, skipped, on_wait)

    def _skipped_batches(self) -> SkippedBatches:
        return SkippedBatches(self._run.path / "skipped.jsonl")

    def _validate_at_the_end(self, loop: TrainingLoop, receiver: Receiver) -> Receiver:
        """The clock came between two validations: validate what it ended with.

        The data processes drop what they had made ahead and turn to the validation set.
        """
        exclusions = receiver.exclusions
        receiver.stop("")
        end = LAST_VALIDATION + self._plan.num_validation_batches
        receiver = self._make_receiver(LAST_VALIDATION, end, exclusions)
        receiver.start()
        prefetch = DevicePrefetch(receiver.queue, self._device, self._task.amount)
        try:
            loop.validate_at_the_end(receiver, prefetch)
        except BaseException:
            receiver.stop("")
            raise
        finally:
            prefetch.close()
        return receiver

    def _cut_logs(self, position: Position) -> None:
        """Logs go back to the checkpoint: what comes after it is about to happen again."""
        cut_back(self._run.metrics, lambda record: record.get("step", 0) <= position.step)
        cut_back(self._run.audit, lambda record: record.get("batch_index", 0) < position.next_batch)

    def _known_exclusions(self, checkpoint: Checkpoint | None) -> Exclusions:
        """Those of the checkpoint, and those written down since: a replay leaves them out too."""
        exclusions = Exclusions.from_json(checkpoint.state["exclusions"] if checkpoint else [])
        for entry in self._quarantine.exclusions():
            exclusions = exclusions.with_added(*entry)
        return exclusions

    def _make_receiver(
        self, first_batch: int, end_batch: int | None, exclusions: Exclusions
    ) -> Receiver:
        bad = BadExamples(exclusions.rows, len(self._index), self._config.data.max_bad_fraction)

        def on_exclusion(
            row: int, from_batch: int, reason: str, until_batch: int | None = None
        ) -> None:
            self._writer.check()
            self._quarantine.add(row, from_batch, reason, until_batch)
            if bad.add(row, reason):
                words = f"⚠️  Left out {self._index.ids[row]}: {reason}"
                self._reporter.say(words, LineKind.LEFT_OUT)
            bad.raise_if_too_many()

        agreement = self._agreement
        if self._team is None or agreement is None or first_batch >= LAST_VALIDATION:
            return self._open_receiver(first_batch, end_batch, exclusions, on_exclusion)
        agreement.begin(
            self._team.next_session,
            self._plan,
            self._config.training.grad_accum,
            exclusions,
            on_exclusion,
        )
        return self._open_receiver(first_batch, end_batch, exclusions, on_exclusion, agreement)

    def _make_parts(
        self,
        model: keras.Model,
        train_step: TrainStep,
        receiver: Receiver,
        position: Position,
    ) -> LoopParts:
        config = self._config
        peak = config.training.learning_rate or self._task.peak_rate()
        if config.training.init_from and not config.training.learning_rate:
            peak *= _FINE_TUNING_SHARE
        steps = total_steps(config, self._plan.batches_per_epoch)
        per_epoch = self._plan.batches_per_epoch / config.training.grad_accum
        most_steps = self._task.most_steps(per_epoch)
        schedule = Schedule(peak, steps, config.training.warmup_steps, most_steps)
        if position.fitted_steps:
            schedule.restore(position.fitted_steps)
        say = self._reporter.say
        summaries = Summaries(self._run.tensorboard, config, position.step, say)
        viewer = self._task.viewer(model, self._index)
        showing = Showing(viewer, train_step, self._run.samples, summaries, say)
        progress = ProgressLog(
            self._run,
            self._index,
            self._plan,
            receiver,
            train_step,
            self._reporter,
            config,
            self._task,
            self._busy,
            summaries.numbers,
            lambda: self._writer.check(at_once=False),
        )
        return LoopParts(
            config=config,
            plan=self._plan,
            share=self._share,
            team=self._team,
            receiver=receiver,
            prefetch=DevicePrefetch(
                receiver.queue, self._device, self._task.amount, config.run.audit
            ),
            train_step=train_step,
            validation=Validation(model, self._task, self._signature, train_step, showing.keep),
            schedule=schedule,
            progress=progress,
            skipped=self._skipped_batches(),
            reporter=self._reporter,
            saving=Saving(
                self._store,
                train_step,
                position,
                lambda: receiver.exclusions,
                self._identity,
                progress,
                self._reporter,
                stop_on_error=config.training.on_save_error == "stop",
            ),
            showing=showing,
            should_stop=self._should_stop,
            started_s=self._started_s,
        )
