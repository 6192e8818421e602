"""What every model process of a run is made of, be it the only one or one replica of several."""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf

from model_worker.stream.admission import Expected
from model_worker.stream.receiver import Agreement, Receiver
from model_worker.stream.share import Share
from model_worker.stream.ticket_ledger import TicketLedger
from model_worker.surroundings import Surroundings
from model_worker.training.built_model import built_model
from model_worker.training.compiling import (
    MINUTES_WORTH_A_TRIAL,
    WORTH_A_TRIAL,
    Trial,
    as_batch,
    kept_trial,
    tried,
    without_trial,
)
from model_worker.training.precision import precision_of
from model_worker.training.shared_step import SharedStep
from model_worker.training.state import Position
from model_worker.training.step import Compiled, StepSettings, TrainStep
from shared.plan.exclusions import Exclusions
from shared.plan.index import Index
from shared.plan.plan_of_run import (
    data_device_kind,
    num_data_workers,
    plan_of,
    settings_fingerprint,
    total_steps,
)
from shared.run.task_identity import read_identity
from shared.run.user_cache import user_cache
from shared.stream.array_block import ALIGNMENT_BYTES
from shared.stream.codec import MAX_ARRAYS
from shared.stream.sockets import ServerSocket
from shared.task.model_side import Facts
from shared.task.registry import Task
from shared.worker.start import busy_meter


class ModelParts:
    """Index, plan, task and device of a run, and what is built from them."""

    def __init__(self, surroundings: Surroundings, rank: int = 0):
        """`rank` numbers the replicas, from the first one's 0."""
        self._run = surroundings.run
        self._config = config = surroundings.config
        self._run_id = config.run.wire_id
        self._endpoint = surroundings.endpoint
        self._keys = surroundings.keys
        self._busy = busy_meter(surroundings.device_kind)
        self._kind = surroundings.device_kind
        self._device = "/GPU:0" if surroundings.device_kind == "gpu" else "/CPU:0"
        self._precision = precision_of(config.model.precision, surroundings.device_kind)
        self._reporter = surroundings.reporter
        self._should_stop = surroundings.should_stop
        self._index = Index.load(self._run.index)
        self._plan = plan_of(config, self._index)
        self._num_replicas = config.data.num_model_replicas
        self._share = Share(self._plan.layout, rank, self._num_replicas)
        self._task_found = Task.of(config.run.task)
        self._task = self._task_found.model_side()(config)
        self._signature = self._task_found.form().signature()

    def _seed(self) -> None:
        keras.utils.set_random_seed(self._config.training.seed)
        if self._config.training.deterministic:
            tf.config.experimental.enable_op_determinism()

    def _build_model(self) -> keras.Model:
        self._precision.settle()
        return built_model(self._task, Facts(self._index, self._config))

    def _make_step(self, model: keras.Model) -> TrainStep:
        training = self._config.training
        settings = StepSettings(
            # Replicas add their batches up elsewhere.
            grad_accum=training.grad_accum if self._num_replicas == 1 else 1,
            weight_decay=training.weight_decay,
            gradient_clip=training.gradient_clip,
            muon=training.optimizer == "muon",
            compiled=self._compiled_without_trial() or Compiled.UPDATE,
            loss_scaling=self._precision.loss_scaling,
        )
        return TrainStep(model, self._task, self._signature, settings)

    def _make_shared(self, train_step: TrainStep) -> SharedStep:
        return SharedStep(train_step, self._task, self._signature)

    def _settle_compiling(self, train_step: TrainStep, done: Position) -> None:
        """With --xla auto on a GPU, have that compiled which is over first by the trial of this machine."""
        if self._compiled_without_trial() is not None:
            return
        training, shapes = self._config.training, self._plan.buckets
        minutes_left = max(0.0, training.minutes - done.elapsed_s / 60)
        total = total_steps(self._config, self._plan.batches_per_epoch)
        steps_left = total and max(0, total - done.step)
        usual = shapes[len(shapes) // 2].arrays()
        facts = {
            "tensorflow": tf.__version__,
            "device": tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0]),
            "task": [self._config.run.task, self._task.identity(), len(train_step.names)],
            "step": [training.optimizer, training.grad_accum, self._precision.name],
            "arrays": usual,
        }  # fmt: skip

        def make() -> Trial:
            self._reporter.say("⏱️  --xla auto: trying what to compile, once on this machine")
            batch = as_batch(self._task.likely(self._index, usual), self._device)
            return tried(train_step, batch, training.grad_accum)

        is_long = (steps_left or 0) >= WORTH_A_TRIAL or minutes_left >= MINUTES_WORTH_A_TRIAL
        trial = kept_trial(user_cache("trials"), facts, make if is_long else None)
        if trial is not None:
            steps = steps_left or trial.steps_in(minutes_left * 60)
            best = trial.best(steps, len(shapes))
            train_step.compile(best)
            self._reporter.say(trial.in_words(best))

    def _compiled_without_trial(self) -> Compiled | None:
        training, wanted = self._config.training, self._config.model.xla
        return without_trial(wanted, self._kind, training.deterministic, self._num_replicas)

    def _open_receiver(
        self,
        first_batch: int,
        end_batch: int | None,
        exclusions: Exclusions,
        on_exclusion: Callable[[int, int, str], None],
        agreement: Agreement | None = None,
    ) -> Receiver:
        """A receiver of this replica's batches from one on, not started yet."""
        config, plan, index = self._config, self._plan, self._index
        ledger = TicketLedger(
            limit=config.data.pipeline_buffer_size,
            byte_budget=config.data.buffer_megabytes << 20,
            nbytes_of=plan.nbytes,
            first_batch=first_batch,
            end_batch=end_batch,
            exclusions_version=exclusions.version,
            after=self._share.after,
        )
        expected = Expected(
            run=self._run_id,
            index_fingerprint=index.fingerprint,
            plan_fingerprint=settings_fingerprint(config, plan),
            device_kind=data_device_kind(config),
            num_rows=len(index),
            tensorflow=tf.__version__,
            recipe=read_identity(self._run).recipe,
            num_workers=num_data_workers(config),
        )
        largest = max(shape.nbytes for shape in plan.buckets)
        socket = ServerSocket(
            self._endpoint,
            self._run_id,
            keys=self._keys,
            max_frame_bytes=largest + MAX_ARRAYS * ALIGNMENT_BYTES,
            num_expected=num_data_workers(config),
        )
        return Receiver(socket, plan, ledger, expected, exclusions, on_exclusion, agreement)
