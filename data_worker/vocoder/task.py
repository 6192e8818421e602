"""The vocoder's data half: from each recording a segment, another one in each epoch.

Recordings are found, looked at and read as speech's are. Mel and pitch are those of the whole
recording, made once on the data GPU: a segment's frames know what came before and comes after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from data_worker.speech.recordings import Recordings
from data_worker.vocoder.segments import segment_of, without_gaps
from shared.plan.index import Index
from shared.speech.mel import HOP, MEL_BINS
from shared.task import BatchShape, Indexed
from shared.vocoder import batch


class VocoderData(Recordings):
    """Recordings of one speaker or many, a segment of each in every epoch."""

    version = 1  # of what segments.py computes, and of the features of speech that it uses
    arrays = batch.ARRAYS
    _longest_frames = 1

    def open(self, index: Index) -> None:
        super().open(index)
        self._longest_frames = int(index.num_frames.max())

    def features(
        self, raws: Sequence[np.ndarray], shape: BatchShape
    ) -> list[dict[str, np.ndarray]]:
        """Of each whole recording: audio int16 (frames * 256,), mel (frames, 80), log_f0 (frames,)."""
        made = self.clips.of_clips(raws, shape.rows, self._longest_frames)
        return [
            {
                "audio": np.rint(raw[: len(each) * HOP] * batch.FULL_SCALE).astype(np.int16),
                "mel": each[:, :MEL_BINS],
                "log_f0": without_gaps(each[:, MEL_BINS + 1]),
            }
            for raw, each in zip(raws, made, strict=True)
        ]

    def row(
        self, example: Indexed, features: dict[str, np.ndarray], companion: Any
    ) -> dict[str, Any]:
        place, level = example.uniform(2)
        return segment_of(features, float(place), float(level))

    def warm_up(self, shape: BatchShape) -> None:
        self.clips.warm_up(shape.rows, self._longest_frames, crop_frames=0)
