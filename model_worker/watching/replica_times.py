"""What one replica's part in the steps cost it, since it was last told: for the log of the run."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass
class ReplicaTimes:
    """Waiting for data, how busy its device was second by second, and batches in its queue."""

    data_wait_ms: float = 0.0
    busy: list[float] = dataclasses.field(default_factory=list)
    queue_depth: int = 0

    def take(self) -> dict[str, Any]:
        """As it is sent and logged; begun anew here."""
        taken = dataclasses.asdict(self)
        self.data_wait_ms, self.busy = 0.0, []
        return taken

    def add(self, told: dict[str, Any]) -> None:
        """Take in what another has taken."""
        self.data_wait_ms += told["data_wait_ms"]
        self.busy += told["busy"]
        self.queue_depth = told["queue_depth"]
