"""Tickets to batches, with real features: what takes long is announced, and what fails is named."""

import queue
from types import SimpleNamespace

import librosa
import numpy as np
import pytest

from data_worker import batch_maker
from data_worker.batch_maker import BatchMaker, MadeBatch
from data_worker.cache import MemoryCache
from data_worker.features import FeatureExtractor
from data_worker.readers import ReaderPool
from shared.exclusions import Exclusions
from shared.mel import HOP
from shared.plan import Plan

DEADLINE_S = 60.0
NUM_ROWS = 24
FRAMES = np.arange(40, 40 + NUM_ROWS)
BASIS = librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)
INDEX = SimpleNamespace(
    symbols=[np.ones(frames // 4, np.int32) for frames in FRAMES], speaker=np.zeros(NUM_ROWS, int)
)
PLAN = Plan(
    FRAMES, FRAMES // 4, np.zeros(NUM_ROWS, int), np.zeros(NUM_ROWS, int),
    batch_size=4, seed=1, max_buckets=1, total_train_batches=40,
)  # fmt: skip


def load(row, on_fetched):
    return np.random.default_rng(row).normal(0, 0.1, FRAMES[row] * HOP).astype(np.float32)


class Making:
    """A batch maker, its cache, and what it tells."""

    def __init__(self):
        self.told = queue.Queue()
        self.extractor = FeatureExtractor(BASIS)
        self.cache = MemoryCache(1 << 30)
        self.readers = ReaderPool(load, 2)
        self.maker = BatchMaker(
            INDEX, PLAN, self.extractor, self.cache, self.readers, self.told.put,
            on_long_work=self.told.put,
        )  # fmt: skip

    def make(self, batch):
        """What was told of one batch until it was made, and how many graphs it took."""
        before = self.extractor.num_traces
        self.maker.submit(batch, Exclusions())
        told = [self.told.get(timeout=DEADLINE_S)]
        while isinstance(told[-1], bool):
            told.append(self.told.get(timeout=DEADLINE_S))
        assert isinstance(told[-1], MadeBatch), told
        return told[:-1], self.extractor.num_traces - before

    def close(self):
        self.maker.close()
        self.readers.close()


@pytest.fixture
def making():
    making = Making()
    yield making
    making.close()


def test_a_graph_is_announced_also_for_a_shape_whose_first_batches_were_cached(making):
    for batch in (PLAN.batch(0), PLAN.batch(1)):
        for row in {*batch.rows.tolist(), *batch.references.tolist()} - {-1}:
            making.cache.put(row, np.zeros((FRAMES[row], 82), np.float32))
    assert making.make(0) == ([True, False], 0)
    assert making.make(1) == ([], 0)
    told, num_traces = making.make(2)
    assert num_traces > 0 and told == [True, False]


def test_what_is_not_quick_is_announced_every_time(making, monkeypatch):
    monkeypatch.setattr(batch_maker, "_QUICK_S", 0.0)
    assert [making.make(number)[0] for number in range(3)] == [[True, False]] * 3
