"""What the log of a run wants to know of a batch that was trained on, by whichever replica."""

from __future__ import annotations

import dataclasses
from typing import Any

from model_worker.stream.device_prefetch import DeviceBatch
from shared.plan.plan import FILLER
from shared.task.batch import ROWS
from shared.task.model_side import ModelSide


@dataclasses.dataclass(frozen=True)
class TrainedBatch:
    """Its number in the stream, its rows, and how it was made."""

    number: int
    rows: list[int]
    sha256: str
    real_amount: float
    padded_amount: float
    data_busy: float
    timings_ms: dict[str, float]

    @classmethod
    def of(cls, batch: DeviceBatch, number: int, task: ModelSide) -> TrainedBatch:
        arrays = batch.received.arrays
        amount = task.amount(arrays)
        return cls(
            number=number,
            rows=[int(row) for row in arrays[ROWS] if row != FILLER],
            sha256=batch.sha256,
            real_amount=float(amount.real),
            padded_amount=float(amount.padded),
            data_busy=batch.received.data_busy,
            timings_ms={**batch.received.timings_ms, "device_copy": batch.copy_ms},
        )

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
