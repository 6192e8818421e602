"""What a model process knows before it imports TensorFlow: its run, its device and its surroundings."""

from __future__ import annotations

from dataclasses import dataclass

from shared.config.settings import Config
from shared.run.directory import RunDirectory
from shared.stream.keys import ServerKeys
from shared.worker.reports import Reporter
from shared.worker.start import StopFlag


@dataclass(frozen=True)
class Surroundings:
    """The run that a model process serves, where it listens, and whom it tells."""

    run: RunDirectory
    config: Config
    endpoint: str  # where batches come in
    keys: ServerKeys | None
    device_kind: str
    reporter: Reporter
    should_stop: StopFlag
