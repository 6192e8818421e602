"""The first replica's side of steps that several share: its own batches, and what all say together."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from model_worker.replicas.exchange import Hub
from model_worker.replicas.words import Begin, Contribution, Total
from model_worker.stream.device_prefetch import DeviceBatch
from model_worker.training.shared_step import SharedStep, Statement
from model_worker.training.state import Position, counters_of, groups_of
from model_worker.training.step import TrainStep
from model_worker.watching.replica_times import ReplicaTimes
from model_worker.watching.trained_batch import TrainedBatch
from shared.plan.exclusions import Exclusions


class OwnBatches:
    """What a replica's batches say, until all replicas have as many to add.

    In order, that is after each batch: the sum is then that of one process, bit for bit. Else it is
    once for each step, which is less to send.
    """

    def __init__(self, in_order: bool):
        self._in_order = in_order
        self._vector: np.ndarray | None = None
        self._operands: list[np.ndarray] = []
        self._facts: list[dict[str, Any]] = []

    def add(self, said: Statement, batch: TrainedBatch, is_last: bool) -> bool:
        """Take in a batch; whether it is time to exchange."""
        self._vector = said.vector if self._vector is None else self._vector + said.vector
        self._operands.append(said.operands)
        self._facts.append({"batch": batch.to_json(), "log": said.log.tolist()})
        return is_last or self._in_order

    def take(
        self, step: int, number: int, times: ReplicaTimes
    ) -> tuple[Contribution, list[np.ndarray]]:
        """The word that is to be said, of batches up to this number, and its arrays."""
        assert self._vector is not None, "nothing was added"
        arrays, facts = [self._vector, np.stack(self._operands)], self._facts
        self.clear()
        return Contribution(0, step, number, facts, times.take()), arrays

    def clear(self) -> None:
        self._vector, self._operands, self._facts = None, [], []


class Team:
    """All replicas of a run, as the first one sees them."""

    def __init__(self, hub: Hub, in_order: bool):
        self._hub = hub
        self._own = OwnBatches(in_order)
        self._shared: SharedStep | None = None
        self._exchange_ms = 0.0
        self.others = [ReplicaTimes() for _ in range(hub.num_replicas - 1)]

    @property
    def next_session(self) -> int:
        """The number of the beginning that comes next."""
        return self._hub.session + 1

    def begin(
        self,
        shared: SharedStep,
        train_step: TrainStep,
        position: Position,
        exclusions: Exclusions,
        skipped: list[tuple[int, int]],
        on_wait: Callable[[], None],
    ) -> None:
        """Have all replicas begin with the state of this one.

        Raises:
            ReplicaLost: one is gone.
        """
        self._shared = shared
        self._own.clear()
        shared.begin()
        groups = groups_of(train_step)
        begin = Begin(
            session=0,
            step=position.step,
            next_batch=position.next_batch,
            exclusions=exclusions.to_json(),
            skipped=[list(stretch) for stretch in skipped],
            counters=counters_of(train_step),
            names=[[group, name] for group, arrays in groups.items() for name in arrays],
        )
        arrays = [array for each in groups.values() for array in each.values()]
        self._hub.begin(begin, arrays, on_wait)

    def train(
        self,
        batch: DeviceBatch,
        number: int,
        step: int,
        place: int,
        word: Total,
        is_last: bool,
        on_wait: Callable[[], None],
    ) -> list[TrainedBatch]:
        """Train on one batch of this replica's, and with a step's last one move the weights.

        `number` is the batch's in the stream, `place` that in the step.

        Returns:
            What all replicas have trained on since the last time, in the order of the stream.

        Raises:
            ReplicaLost: one is gone; the weights are as they were before the step.
        """
        assert self._shared is not None, "not begun"
        said = self._shared.say(batch.tensors, step, place)
        if not self._own.add(said, TrainedBatch.of(batch, number), is_last):
            return []
        own = self._own.take(step, number, ReplicaTimes())
        begun_s = time.perf_counter()
        whole, everyones = self._hub.add(*own, word, is_last, on_wait)
        self._exchange_ms += (time.perf_counter() - begun_s) * 1000
        for times, each in zip(self.others, everyones[1:], strict=True):
            times.add(each.times)
        facts = [fact for each in everyones for fact in each.facts]
        facts.sort(key=lambda fact: fact["batch"]["number"])
        for fact in facts:
            self._shared.note_log(np.array(fact["log"], np.float32))
        if whole is not None:
            total, operands = whole
            self._shared.apply(total, operands, word.rate, word.ema_decay)
        return [TrainedBatch(**fact["batch"]) for fact in facts]

    def take_exchange_ms(self) -> float:
        """What it took, since this was last asked, until all had said their part and were told."""
        taken, self._exchange_ms = self._exchange_ms, 0.0
        return taken

    def stop(self, code: int) -> None:
        """Have the others end, with this exit code."""
        self._hub.stop(code)

    def close(self) -> None:
        self._hub.close()
