"""Held-out recordings, read as the batches have them."""

from __future__ import annotations

import numpy as np

from shared.config.settings import Config
from shared.plan.index import Index, root_folders
from shared.speech.mel import HOP, SAMPLE_RATE
from shared.speech.recording import levelled, peak_of, resampled


def recording_of(index: Index, row: int, config: Config) -> np.ndarray:
    """A whole recording of the index, float32 (frames * 256,) at 22,050 Hz.

    Raises:
        OSError, soundfile.LibsndfileError: it is no longer there, or can't be decoded.
    """
    import soundfile

    roots = root_folders(config.data.train_data or "", config.data.val_data)
    first, count = int(index.start[row]), int(index.num_samples[row])
    with soundfile.SoundFile(roots[index.root[row]] / index.paths[row]) as file:
        audio = file.read(first + count, "float32", always_2d=True)[first:].mean(axis=1)
        rate = file.samplerate
    if rate != SAMPLE_RATE:
        audio = resampled(audio, rate)
    if config.task.normalise_loudness:
        audio = levelled(audio, peak_of(audio))
    return audio[: len(audio) // HOP * HOP]
