"""What an export is made of, found before TensorFlow is there."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from model_worker.checkpoints.files import Checkpoint
from model_worker.vocoder.trained_run import TrainedRun
from shared.config.settings import Config
from shared.plan.index import Index


@dataclasses.dataclass(frozen=True)
class VoiceToExport:
    """references: name -> mel, float32 (REFERENCE_FRAMES, 80). vocoder: None for Griffin-Lim."""

    index: Index
    config: Config
    references: dict[str, np.ndarray]
    checkpoint: Checkpoint
    vocoder: TrainedRun | None
    about: dict[str, Any]  # of symbols.json
