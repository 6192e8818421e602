"""Recordings to segments, by the real features: another one each epoch, the same from the cache."""

from pathlib import Path

import librosa
import numpy as np
import pytest

from data_worker.batches.batch_filler import BatchFiller
from data_worker.batches.cache import MemoryCache, NoCache
from data_worker.vocoder.task import VocoderData
from shared.config.settings import Config
from shared.plan.index import Index, RaggedColumn, StringColumn
from shared.plan.plan import Plan
from shared.speech.index_check import STATISTICS
from shared.speech.mel import HOP, SAMPLE_RATE
from shared.task import Indexed
from shared.vocoder.batch import FORM, FULL_SCALE

NUM_ROWS = 6
FRAMES = np.arange(40, 40 + 20 * NUM_ROWS, 20).astype(np.int32)
HERTZ = 150.0
INDEX = Index(
    columns={
        "ids": StringColumn.of(f"e{row}" for row in range(NUM_ROWS)),
        "start": np.zeros(NUM_ROWS, np.int64),
        "num_samples": FRAMES.astype(np.int64) * HOP,
        "num_channels": np.ones(NUM_ROWS, np.int16),
        "sample_rate": np.full(NUM_ROWS, SAMPLE_RATE, np.int32),
        "num_frames": FRAMES,
        "num_symbols": np.full(NUM_ROWS, 2, np.int32),
        "symbols": RaggedColumn.of([np.ones(2, np.int16)] * NUM_ROWS),
        "speaker": np.zeros(NUM_ROWS, np.int32),
        "split": np.zeros(NUM_ROWS, np.uint8),
    },
    tables={"mel_basis": librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)},
    facts={"symbol_table": ["_", "a"], "speakers": ["one"], **dict.fromkeys(STATISTICS, 1.0)},
    left_out=[],
)


def buzz_of(row):
    """A voice that stands at one pitch, its clip's own."""
    time_s = np.arange(FRAMES[row] * HOP) / SAMPLE_RATE
    waves = [np.sin(2 * np.pi * HERTZ * (1 + row / 10) * h * time_s) / h for h in range(1, 20)]
    return (0.3 * np.sum(waves, axis=0)).astype(np.float32)


@pytest.fixture(scope="module")
def task():
    task = VocoderData(Config())
    task.open(INDEX)
    return task


def made_by(task, batch, cache):
    filler = BatchFiller(task, lambda row: Indexed(INDEX, row, Path()), cache)
    known = {row: cache.get(row) for row in batch.rows.tolist() if cache.get(row) is not None}
    raws = {row: buzz_of(row) for row in batch.rows.tolist() if row not in known}
    return filler.fill(batch, known, raws)


def test_each_epoch_has_another_segment_of_each_recording_whatever_is_kept(task):
    plan, cache = Plan.from_index(INDEX, FORM, batch_size=NUM_ROWS, seed=1), MemoryCache(1 << 30)
    epochs = [made_by(task, plan.batch(n), cache) for n in range(3)]
    assert cache.num_entries == NUM_ROWS
    for n, arrays in enumerate(epochs):
        again = made_by(task, plan.batch(n), NoCache())
        assert all(arrays[name].tobytes() == again[name].tobytes() for name in arrays)
    gains = [tuple(arrays["gain"][np.argsort(arrays["rows"])]) for arrays in epochs]
    assert len(set(gains)) == 3


def test_a_batch_holds_each_recordings_own_pitch_and_its_samples(task):
    plan = Plan.from_index(INDEX, FORM, batch_size=NUM_ROWS, seed=2)
    arrays = made_by(task, plan.batch(0), NoCache())
    for slot, row in enumerate(arrays["rows"].tolist()):
        hertz = np.exp(arrays["log_f0"][slot])
        np.testing.assert_allclose(hertz, HERTZ * (1 + row / 10), rtol=0.01)
        whole = np.rint(buzz_of(row) * FULL_SCALE).astype(np.int16)
        windows = np.lib.stride_tricks.sliding_window_view(whole, arrays["audio"].shape[1])[::HOP]
        assert (windows == arrays["audio"][slot]).all(axis=1).any()
