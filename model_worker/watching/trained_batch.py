"""What the log of a run wants to know of a batch that was trained on, by whichever replica."""

from __future__ import annotations

import dataclasses
from typing import Any

from model_worker.stream.device_prefetch import DeviceBatch


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
    def of(cls, batch: DeviceBatch, number: int) -> TrainedBatch:
        return cls(
            number=number,
            rows=batch.rows,
            sha256=batch.sha256,
            real_amount=float(batch.amount.real),
            padded_amount=float(batch.amount.padded),
            data_busy=batch.received.data_busy,
            timings_ms={**batch.received.timings_ms, "device_copy": batch.copy_ms},
        )

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
