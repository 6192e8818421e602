"""Features of clips, each as long as its clip: the rows that the graphs want, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from data_worker.speech.features import FeatureExtractor
from data_worker.speech.padded_rows import RowSpace, fill_row, pad_length
from shared.speech.mel import HOP


class Crop(NamedTuple):
    """A stretch of a clip, in mel frames."""

    audio: np.ndarray  # float32 (samples,)
    first_frame: int
    num_frames: int


class ClipFeatures:
    """Batches of clips in, one array for each clip out."""

    def __init__(self, mel_basis: np.ndarray):
        self._extractor = FeatureExtractor(mel_basis)
        self._space = RowSpace()

    @property
    def num_graphs(self) -> int:
        return self._extractor.num_traces

    def of_clips(self, clips: Sequence[np.ndarray], rows: int, frames: int) -> list[np.ndarray]:
        """Log mel, energy and pitch of each clip, float32 (its frames, 82).

        `rows` and `frames` choose the graph; there are at most so many clips, none longer.
        """
        space = self._space.rows(rows, frames)
        space[:, : pad_length(1)] = 0.0  # of rows without a clip, one frame is looked at
        lengths = np.ones(rows, np.int32)
        for place, audio in enumerate(clips):
            fill_row(space[place], audio)
            lengths[place] = len(audio) // HOP
        features = self._extractor(space, lengths)
        return [features[place, : lengths[place]].copy() for place in range(len(clips))]

    def mel_of(self, crops: Sequence[Crop], rows: int, frames: int) -> list[np.ndarray]:
        """The log mel of each crop alone, float32 (its frames, 80)."""
        if not crops:
            return []
        space = np.zeros((rows, pad_length(frames)), np.float32)
        lengths = np.ones(rows, np.int32)
        for place, crop in enumerate(crops):
            fill_row(space[place], crop.audio, first_frame=crop.first_frame)
            lengths[place] = crop.num_frames
        mel = self._extractor.mel(space, lengths)
        return [mel[place, : crop.num_frames] for place, crop in enumerate(crops)]

    def warm_up(self, rows: int, frames: int, crop_frames: int) -> None:
        """Build the graphs of one bucket's clips and crops; 0 where there are no crops."""
        self._extractor.warm_up(rows, frames)
        if not crop_frames:
            return
        empty = np.zeros((rows, pad_length(crop_frames)), np.float32)
        self._extractor.mel(empty, np.ones(rows, np.int32))
