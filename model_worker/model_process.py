"""One session of the model process: restore, receive, train, save, from the parts of a run."""

from __future__ import annotations

import logging

import keras
import tensorflow as tf

from model_worker.checkpoints.files import Checkpoint
from model_worker.checkpoints.store import CheckpointStore
from model_worker.saving import Saving
from model_worker.start_delay import wait_for_start
from model_worker.stream.admission import Expected
from model_worker.stream.device_prefetch import DevicePrefetch
from model_worker.stream.receiver import Receiver
from model_worker.stream.ticket_ledger import TicketLedger
from model_worker.training.bad_examples import BadExamples
from model_worker.training.begin_from import begin_from_run
from model_worker.training.built_model import built_model
from model_worker.training.precision import precision_of
from model_worker.training.roll_backs import RollBack, RollBacks
from model_worker.training.schedule import Schedule
from model_worker.training.skipped_batches import SkippedBatches
from model_worker.training.state import Position, restore
from model_worker.training.step import StepSettings, TrainStep
from model_worker.training.validation import Validation
from model_worker.training_loop import LoopParts, TrainingLoop
from model_worker.watching.progress_log import ProgressLog
from model_worker.watching.quarantine import Quarantine
from model_worker.watching.showing import Showing
from model_worker.watching.summaries import Summaries
from shared.config.option import decided
from shared.config.settings import Config
from shared.plan.exclusions import Exclusions
from shared.plan.index import Index
from shared.plan.plan_of_run import data_device_kind, plan_of, settings_fingerprint, total_steps
from shared.plan.stream_layout import LAST_VALIDATION
from shared.run.directory import RunDirectory
from shared.run.json_lines import cut_back
from shared.run.task_identity import read_identity
from shared.stream.array_block import ALIGNMENT_BYTES
from shared.stream.codec import MAX_ARRAYS
from shared.stream.keys import ServerKeys
from shared.stream.sockets import ServerSocket
from shared.task.model_side import Facts
from shared.task.registry import Task
from shared.worker.contract import COMPILING, EXIT_FINISHED, EXIT_INTERRUPTED, STARTING
from shared.worker.reports import LineKind, Reporter
from shared.worker.start import StopFlag, busy_meter

log = logging.getLogger(__name__)

_FINE_TUNING_SHARE = 0.5  # of the peak rate, with --init-from: what was learned is to be kept
_STARTING_DEADLINE_S = 300.0
_COMPILING_DEADLINE_S = 1800.0
_STOP_PATIENCE_S = 2.0  # with pictures and with TensorBoard


class Session:
    """Builds everything once, and trains until the end or a roll-back."""

    def __init__(
        self,
        run: RunDirectory,
        config: Config,
        endpoint: str,
        keys: ServerKeys | None,
        device_kind: str,
        reporter: Reporter,
        should_stop: StopFlag,
        started_s: float,
    ):
        self._run = run
        self._config = config
        self._endpoint = endpoint
        self._keys = keys
        self._busy = busy_meter(device_kind)
        self._device = "/GPU:0" if device_kind == "gpu" else "/CPU:0"
        self._precision = precision_of(config.model.precision, device_kind)
        self._reporter = reporter
        self._should_stop = should_stop
        self._started_s = started_s
        self._index = Index.load(run.index)
        self._plan = plan_of(config, self._index)
        task = Task.of(config.run.task)
        self._task = task.model_side()(config)
        self._signature = task.form().signature()
        self._store = CheckpointStore(run.checkpoints, config.training.keep_checkpoints)
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
        if not task.is_built_in:
            self._identity["task"] = task.name  # of its edits the launcher knows

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
            train_step.warm_up()  # while the data processes start and fill the queue
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
                wait_for_start(
                    receiver, config, checkpoint is not None, self._reporter, self._should_stop
                )
            self._reporter.phase(STARTING, _STARTING_DEADLINE_S)
            parts = self._make_parts(model, train_step, receiver, position)
            loop = TrainingLoop(parts, position)
            code = loop.run()
            parts.prefetch.close()
            if code == EXIT_FINISHED and loop.needs_validation:
                receiver = self._validate_at_the_end(loop, receiver)
            reason = "interrupted" if code == EXIT_INTERRUPTED else "finished"
            return code
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

    def _validate_at_the_end(self, loop: TrainingLoop, receiver: Receiver) -> Receiver:
        """The clock came between two validations: validate what it ended with.

        The data processes drop what they had made ahead and turn to the validation set.
        """
        exclusions = receiver.exclusions
        receiver.stop("")
        end = LAST_VALIDATION + self._plan.num_validation_batches
        receiver = self._make_receiver(LAST_VALIDATION, end, exclusions)
        receiver.start()
        prefetch = DevicePrefetch(receiver.queue, self._device, False)
        try:
            loop.validate_at_the_end(receiver, prefetch)
        except BaseException:
            receiver.stop("")
            raise
        finally:
            prefetch.close()
        return receiver

    def _seed(self) -> None:
        keras.utils.set_random_seed(self._config.training.seed)
        if self._config.training.deterministic:
            tf.config.experimental.enable_op_determinism()

    def _build_model(self) -> keras.Model:
        self._precision.settle()
        return built_model(self._task, Facts(self._index, self._config))

    def _make_step(self, model: keras.Model) -> TrainStep:
        training, model_config = self._config.training, self._config.model
        settings = StepSettings(
            grad_accum=training.grad_accum,
            weight_decay=training.weight_decay,
            gradient_clip=training.gradient_clip,
            muon=training.optimizer == "muon",
            xla=model_config.xla,
            loss_scaling=self._precision.loss_scaling,
        )
        return TrainStep(model, self._task, self._signature, settings)

    def _cut_logs(self, position: Position) -> None:
        """Logs go back to the checkpoint: what comes after it is about to happen again."""
        cut_back(self._run.metrics, lambda record: record.get("step", 0) <= position.step)
        cut_back(self._run.audit, lambda record: record.get("batch_index", 0) < position.next_batch)

    def _known_exclusions(self, checkpoint: Checkpoint | None) -> Exclusions:
        """Those of the checkpoint, and those written down since: a replay leaves them out too."""
        exclusions = Exclusions.from_json(checkpoint.state["exclusions"] if checkpoint else [])
        for row, from_batch in self._quarantine.exclusions():
            exclusions = exclusions.with_added(row, from_batch)
        return exclusions

    def _make_receiver(
        self, first_batch: int, end_batch: int | None, exclusions: Exclusions
    ) -> Receiver:
        config, plan, index = self._config, self._plan, self._index
        ledger = TicketLedger(
            limit=config.data.pipeline_buffer_size,
            byte_budget=config.data.buffer_megabytes << 20,
            nbytes_of=plan.nbytes,
            first_batch=first_batch,
            end_batch=end_batch,
            exclusions_version=exclusions.version,
        )
        expected = Expected(
            run=config.run.wire_id,
            index_fingerprint=index.fingerprint,
            plan_fingerprint=settings_fingerprint(config, plan),
            device_kind=data_device_kind(config),
            num_rows=len(index),
            tensorflow=tf.__version__,
            recipe=read_identity(self._run).recipe,
        )
        bad = BadExamples(exclusions.first_batch, len(index), config.data.max_bad_fraction)

        def on_exclusion(row: int, from_batch: int, reason: str) -> None:
            self._quarantine.add(row, from_batch, reason)
            if bad.add(row, reason):
                words = f"⚠️  Left out {index.ids[row]}: {reason}"
                self._reporter.say(words, LineKind.LEFT_OUT)
            bad.raise_if_too_many()

        largest = max(shape.nbytes for shape in plan.buckets)
        socket = ServerSocket(
            self._endpoint,
            config.run.wire_id,
            keys=self._keys,
            max_frame_bytes=largest + MAX_ARRAYS * ALIGNMENT_BYTES,
        )
        return Receiver(socket, plan, ledger, expected, exclusions, on_exclusion)

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
        schedule = Schedule(peak, steps, config.training.warmup_steps)
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
        )
        return LoopParts(
            config=config,
            plan=self._plan,
            receiver=receiver,
            prefetch=DevicePrefetch(receiver.queue, self._device, config.run.audit),
            train_step=train_step,
            validation=Validation(model, self._task, self._signature, train_step, showing.keep),
            schedule=schedule,
            progress=progress,
            skipped=SkippedBatches(self._run.path / "skipped.jsonl"),
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
