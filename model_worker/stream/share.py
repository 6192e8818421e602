"""Which batches of the stream are whose, where several replicas share the batches of each step."""

from __future__ import annotations

import dataclasses

from shared.plan.stream_layout import StreamLayout


@dataclasses.dataclass(frozen=True)
class Share:
    """Replica `rank` has the training batches whose number leaves `rank` when divided by `num_replicas`.

    A step's batches are a multiple of `num_replicas`, so that each replica has as many of every
    step, and a validation begins only after whole steps. Validations are the first replica's.
    """

    layout: StreamLayout
    rank: int = 0
    num_replicas: int = 1

    def first(self, n: int) -> int:
        """Its first batch from `n` on, where a step or a validation begins; the end if it has none."""
        if self.rank == 0 or self._is_past_the_end(n):
            return n
        place = self.layout.place(n)
        if place.kind == "train":
            return n + self.rank
        return self._after_validation(self.layout.num_train_batches_before(n))

    def after(self, n: int) -> int:
        """Its next batch after its batch `n`; the end if it has none."""
        if self.num_replicas == 1:
            return n + 1
        place = self.layout.place(n)
        if place.kind != "train":
            return n + 1
        if self.rank == 0:  # those between are the others'; a validation may come after them
            return n + self.num_replicas
        return self._after_validation(place.number + self.num_replicas - self.rank)

    def _after_validation(self, train_batch: int) -> int:
        """Its batch among those that begin with this training batch, whatever comes between."""
        total = self.layout.total_train_batches
        if total is not None and train_batch + self.rank >= total:
            return self.layout.num_stream_batches or 0
        return self.layout.stream_index_of_train(train_batch + self.rank)

    def _is_past_the_end(self, n: int) -> bool:
        end = self.layout.num_stream_batches
        return end is not None and n >= end
