"""A model process after the first: built as that is, it begins where the first one says."""

from __future__ import annotations

import logging

import numpy as np
import tensorflow as tf

from model_worker.model_parts import ModelParts
from model_worker.replicas.agreement import OtherAgrees
from model_worker.replicas.exchange import ReplicaLost, Spoke, Told
from model_worker.replicas.follower_loop import FollowerLoop, FollowerParts
from model_worker.replicas.words import Begin
from model_worker.stream.device_prefetch import DevicePrefetch
from model_worker.training.shared_step import SharedStep
from model_worker.training.state import put_back
from model_worker.training.step import TrainStep
from model_worker.watching.liveness import NO_DEADLINE_S
from shared.plan.exclusions import Exclusions
from shared.stream.endpoints import exclusion_endpoint
from shared.worker.contract import (
    COMPILING,
    EXIT_TO_BEGIN_AGAIN,
    STARTING,
    WAITING_FOR_REPLICAS,
)

log = logging.getLogger(__name__)

_STARTING_DEADLINE_S = 300.0
_COMPILING_DEADLINE_S = 1800.0


class Follower(ModelParts):
    """Builds everything once, and trains until the first replica says that it is over."""

    def train(self, spoke: Spoke) -> int:
        """Returns the exit code.

        Raises:
            TandemError: the run can't go on.
        """
        self._reporter.phase(STARTING, _STARTING_DEADLINE_S)
        self._seed()
        with tf.device(self._device):
            train_step = self._make_step(self._build_model())
            shared = self._make_shared(train_step)
        self._reporter.phase(COMPILING, _COMPILING_DEADLINE_S)
        shared.warm_up()
        self._reporter.phase(WAITING_FOR_REPLICAS, NO_DEADLINE_S)
        try:
            told = spoke.wait_for_order(lambda: None)
            while isinstance(told.word, Begin):
                told = self._follow(spoke, told.word, told.arrays, train_step, shared)
            return told.word.code
        except ReplicaLost as lost:
            log.info("%s; beginning again", lost)
            return EXIT_TO_BEGIN_AGAIN

    def _follow(
        self,
        spoke: Spoke,
        begin: Begin,
        arrays: list[np.ndarray],
        train_step: TrainStep,
        shared: SharedStep,
    ) -> Told:
        """Train from a beginning on, until something else is told."""
        groups: dict[str, dict[str, np.ndarray]] = {}
        for (group, name), array in zip(begin.names, arrays, strict=True):
            groups.setdefault(group, {})[name] = array
        put_back(groups, begin.counters, train_step)
        shared.begin()
        first, end = self._share.first(begin.next_batch), self._plan.layout.num_stream_batches
        exclusions = Exclusions.from_json(begin.exclusions)
        agreement = OtherAgrees(
            exclusion_endpoint(self._run_id), begin.session, self._share.rank, exclusions
        )
        receiver = self._open_receiver(first, end, exclusions, lambda *_: None, agreement)
        receiver.start()
        prefetch = DevicePrefetch(
            receiver.queue, self._device, self._task.amount, self._config.run.audit
        )
        parts = FollowerParts(
            plan=self._plan,
            share=self._share,
            num_own=self._config.training.grad_accum // self._num_replicas,
            in_order=self._config.training.deterministic,
            receiver=receiver,
            prefetch=prefetch,
            shared=shared,
            spoke=spoke,
            reporter=self._reporter,
            busy=self._busy,
        )
        try:
            return FollowerLoop(parts, begin).run()
        finally:
            prefetch.close()
            # The data processes stay; that a run is over, the first one tells them.
            receiver.stop("")
            agreement.close()
