"""Held-out recordings, read as the batches have them."""

from __future__ import annotations

import numpy as np

from shared.config.settings import Config
from shared.plan.index import Index
from shared.plan.plan_of_run import example_of_row
from shared.speech.mel import HOP


def recording_of(index: Index, row: int, config: Config) -> np.ndarray:
    """A whole recording of the index, float32 (frames * 256,) at 22,050 Hz.

    Raises:
        OSError, ReadError: it is no longer there, or can't be decoded.
    """
    from shared.speech.utterance import load_utterance  # which brings the decoder

    audio = load_utterance(
        example_of_row(config, index)(row).path,
        int(index.start[row]),
        int(index.num_samples[row]),
        int(index.sample_rate[row]),
        config.task.normalise_loudness,
    )
    return audio[: len(audio) // HOP * HOP]
