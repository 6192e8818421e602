"""The loop of a replica after the first: its own batches, and whatever all replicas are told to do."""

from __future__ import annotations

import dataclasses
import time

from model_worker.replicas.exchange import Spoke, Told
from model_worker.replicas.team import OwnBatches
from model_worker.replicas.words import Begin
from model_worker.stream.device_prefetch import DeviceBatch, DevicePrefetch
from model_worker.stream.receiver import Receiver
from model_worker.stream.share import Share
from model_worker.training.shared_step import SharedStep
from model_worker.watching.liveness import Liveness
from model_worker.watching.replica_times import ReplicaTimes
from model_worker.watching.trained_batch import TrainedBatch
from shared.devices.cores import BusyMeter
from shared.plan.plan import Plan
from shared.worker.reports import Busy, Reporter
from shared.worker.want_of_memory import is_want_of_memory, too_large

_WAIT_S = 0.2


@dataclasses.dataclass
class FollowerParts:
    """What the loop works with."""

    plan: Plan
    share: Share  # of the stream's batches
    num_own: int  # batches of each step that are this replica's
    in_order: bool
    receiver: Receiver
    prefetch: DevicePrefetch
    shared: SharedStep
    spoke: Spoke
    reporter: Reporter
    busy: BusyMeter


class FollowerLoop:
    """Trains from a beginning on; knows no end but what it is told."""

    def __init__(self, parts: FollowerParts, begin: Begin):
        self._parts = parts
        self._step = begin.step
        self._cursor = parts.share.first(begin.next_batch)
        self._skipped = [range(first, last + 1) for first, last in begin.skipped]
        self._own = OwnBatches(parts.in_order)
        self._times = ReplicaTimes()
        self._liveness = Liveness(parts.reporter, self._sample_busy)
        self._shapes: set = set()

    def run(self) -> Told:
        """What it is told to do instead.

        Raises:
            ReplicaLost: the first replica is gone.
        """
        end = self._parts.plan.layout.num_stream_batches
        try:
            while end is None or self._cursor < end:
                for turn in range(self._parts.num_own):
                    self._train(self._next_batch(), turn)
                    self._cursor = self._parts.share.after(self._cursor)
                self._step += 1
        except Told as told:
            return told
        return self._parts.spoke.wait_for_order(self._wait_for_replicas)

    def _next_batch(self) -> DeviceBatch:
        begun_s = time.perf_counter()
        while True:
            self._parts.spoke.look()
            batch = self._parts.prefetch.get(_WAIT_S)
            if batch is not None:
                self._times.data_wait_ms += (time.perf_counter() - begun_s) * 1000
                self._parts.receiver.taken()
                return batch
            self._liveness.waits(self._parts.receiver, self._cursor)

    def _train(self, batch: DeviceBatch, turn: int) -> None:
        """One batch; with the step's last one of this replica's the weights move as everyone's do."""
        if any(self._cursor in stretch for stretch in self._skipped):
            return
        parts, started_s = self._parts, time.perf_counter()
        shape = parts.plan.shape(self._cursor)
        is_first = shape not in self._shapes
        self._shapes.add(shape)
        if is_first:
            self._liveness.compiles()
        else:
            self._liveness.trains()
        place = turn * parts.share.num_replicas + parts.share.rank
        try:
            said = parts.shared.say(batch.tensors, self._step, place)
        except Exception as error:
            if is_want_of_memory(error):
                grad_accum = parts.num_own * parts.share.num_replicas
                raise too_large(error, shape, grad_accum) from error
            raise
        trained = TrainedBatch.of(batch, self._cursor)
        self._liveness.moved(self._cursor)
        self._liveness.allow_for(time.perf_counter() - started_s, is_first)
        if not self._own.add(said, trained, is_last=turn == parts.num_own - 1):
            return
        self._times.queue_depth = parts.receiver.queue_depth
        own = self._own.take(self._step, self._cursor, self._times)
        answer = parts.spoke.say(*own, self._wait_for_replicas)
        if answer is not None:
            word, (total, operands) = answer
            parts.shared.apply(total, operands, word.rate, word.ema_decay)

    def _wait_for_replicas(self) -> None:
        self._liveness.waits_for_replicas(self._cursor)

    def _sample_busy(self) -> None:
        parts = self._parts
        if parts.busy.sample():
            depth = parts.receiver.queue_depth
            share, memory_mb = parts.busy.rounded_share, parts.busy.memory_mb()
            if share is not None:
                self._times.busy.append(share)
            parts.reporter.tell(Busy(share, memory_mb, queue_depth=depth))
