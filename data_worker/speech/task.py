"""Speech's data half: recordings with their texts become symbols, mel, pitch and energy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data_worker.speech.recordings import Recordings
from shared.speech import batch
from shared.speech.mel import HOP, MEL_BINS
from shared.speech.reference import crop_of, tiled
from shared.task import BatchShape, Companion, Example, Indexed, Looked


class SpeechData(Recordings):
    """Recordings of one speaker or many; a companion is another clip of the same speaker."""

    version = 3  # of what features, pitch, padded_rows and utterance compute
    lengths = batch.LENGTHS
    arrays = batch.ARRAYS
    companion = batch.COMPANION

    def look(self, example: Example, path: Path) -> Looked:
        looked = super().look(example, path)
        lengths = looked.found.num_frames, len(looked.found.symbols) + 2
        return dataclasses.replace(looked, lengths=lengths)

    def features(self, raws: Sequence[np.ndarray], shape: BatchShape) -> list[np.ndarray]:
        """Log mel, energy and pitch of each clip, float32 (frames, 82)."""
        return self.clips.of_clips(raws, shape.rows, shape["num_frames"])

    def companions(self, wanted: Sequence[Companion], shape: BatchShape) -> list[np.ndarray]:
        """A crop of each reference clip's mel: from its features if they are known, else made."""
        from data_worker.speech.clip_features import Crop

        crops: list[np.ndarray | None] = []
        missing: list[Crop] = []
        for each in wanted:
            known = each.features
            frames = len(known) if known is not None else len(each.raw) // HOP
            start, count = crop_of(frames, each.offset)
            if known is not None:
                crops.append(tiled(known[start : start + count, :MEL_BINS]))
            else:
                crops.append(None)
                missing.append(Crop(each.raw, start, count))
        made = iter(self.clips.mel_of(missing, shape.rows, batch.REFERENCE_FRAMES))
        return [crop if crop is not None else tiled(next(made)) for crop in crops]

    def row(self, example: Indexed, features: np.ndarray, companion: Any) -> dict[str, Any]:
        symbols = example["symbols"]
        return {
            "symbols": symbols,
            "symbol_lengths": len(symbols),
            "mel": features[:, :MEL_BINS],
            "mel_lengths": len(features),
            "pitch": features[:, MEL_BINS + 1],
            "energy": features[:, MEL_BINS],
            "reference_mel": companion,
            "speaker": example["speaker"],
        }

    def warm_up(self, shape: BatchShape) -> None:
        self.clips.warm_up(shape.rows, shape["num_frames"], batch.REFERENCE_FRAMES)
