"""What an index of speech holds beside what every index does."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from data_worker.speech import statistics
from data_worker.speech.audio_check.check_row import Usable
from shared.config.settings import Config
from shared.plan.index import RaggedColumn
from shared.speech import mel
from shared.speech.corpus_statistics import Statistics
from shared.speech.text.reading.reader import VERSION
from shared.speech.text.symbols import build_table, encode_corpus
from shared.task import Corpus, Example


def speech_corpus(
    examples: Sequence[Example],
    usable: Sequence[Usable],
    is_training: np.ndarray,
    roots: Sequence[str],
    pool: Any,
    config: Config,
) -> Corpus:
    """Columns, mel basis, symbol table, speakers and statistics of the usable rows."""
    speakers = sorted({example.group for example in examples})
    number_of = {name: number for number, name in enumerate(speakers)}
    table = build_table(each.symbols for each in usable)
    values, offsets = encode_corpus([each.symbols for each in usable], table)
    basis = mel_basis()
    measured = _measure(examples, usable, is_training, roots, basis, pool, config)
    found = [each.found for each in usable]

    def column(numbers: Any, dtype: type) -> np.ndarray:
        return np.fromiter(numbers, dtype, len(usable))

    return Corpus(
        columns={
            "sample_rate": column((f.sample_rate for f in found), np.int32),
            "start": column((f.start for f in found), np.int64),
            "num_samples": column((f.num_samples for f in found), np.int64),
            "num_channels": column((f.num_channels for f in found), np.int16),
            "num_frames": column((each.num_frames for each in usable), np.int32),
            "speaker": column((number_of[example.group] for example in examples), np.int32),
            "symbols": RaggedColumn(values, offsets),
            "num_symbols": np.diff(offsets).astype(np.int32),
        },
        tables={"mel_basis": basis},
        facts={
            "symbol_table": table,
            "speakers": speakers,
            **dataclasses.asdict(measured),
            "text": {
                "frontend": config.task.text_frontend,
                "language": config.task.language,
                # Part of what the index is only where the rules have said anything.
                **({"reading": VERSION} if any(each.is_reworded for each in usable) else {}),
            },
        },
        remarks={"unspoken": sorted({c for each in usable for c in each.unspoken})},
    )


def mel_basis() -> np.ndarray:
    """The filters of the field: Slaney's scale and norm, float32 (80, 513)."""
    import librosa.filters  # half a second, which an index that is known does not need

    basis = librosa.filters.mel(
        sr=mel.SAMPLE_RATE, n_fft=mel.FFT, n_mels=mel.MEL_BINS, fmin=0, fmax=mel.FMAX
    )
    return basis + np.float32(0)  # a zero has one sign, or the fingerprints of hosts might differ


def _measure(
    examples: Sequence[Example],
    usable: Sequence[Usable],
    is_training: np.ndarray,
    roots: Sequence[str],
    basis: np.ndarray,
    pool: Any,
    config: Config,
) -> Statistics:
    """Mel, pitch and energy of a seeded sample of the training clips."""
    train = np.flatnonzero(is_training).tolist()
    chosen = random.Random(config.training.seed).sample(
        train, min(statistics.SAMPLE_CLIPS, len(train))
    )
    clips = []
    for number in sorted(chosen):
        example, found = examples[number], usable[number].found
        clips.append(
            statistics.Clip(
                roots[example.root], example.path, found.start, found.num_samples, found.sample_rate
            )
        )
    task = functools.partial(
        statistics.measure,
        mel_basis=basis,
        normalise_loudness=config.task.normalise_loudness,
    )
    return statistics.combine(pool.map(task, clips, 8, "measuring a sample of the speech"))
