"""Tickets to batches, with real features: what takes long is announced, and what fails is named."""

import queue
import threading
from types import SimpleNamespace

import librosa
import numpy as np
import pytest

from data_worker.batches import batch_maker
from data_worker.batches.batch_maker import BatchMaker, MadeBatch
from data_worker.batches.cache import DiskCache, MemoryCache
from data_worker.batches.readers import ReaderPool
from data_worker.speech.features import FeatureExtractor
from shared.plan.exclusions import Exclusions
from shared.plan.plan import Plan
from shared.speech.mel import HOP

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


def load(row, on_piece):
    return np.random.default_rng(row).normal(0, 0.1, FRAMES[row] * HOP).astype(np.float32)


class Making:
    """A batch maker, its cache, and what it tells."""

    def __init__(self, cache=None, load=load):
        self.told = queue.Queue()
        self.extractor = FeatureExtractor(BASIS)
        self.cache = cache or MemoryCache(1 << 30)
        self.readers = ReaderPool(load, 2, look_up=self.cache.get)
        self.maker = BatchMaker(
            INDEX, PLAN, self.extractor, self.cache, self.readers, self.told.put,
            on_long_work=self.told.put,
        )  # fmt: skip

    def make(self, batch):
        """What was told of one batch until it was made, and how many graphs it took."""
        told, num_traces = self._made(batch)
        return told[:-1], num_traces

    def arrays(self, batch):
        return self._made(batch)[0][-1].arrays

    def _made(self, batch):
        before = self.extractor.num_traces
        self.maker.submit(batch, Exclusions())
        told = [self.told.get(timeout=DEADLINE_S)]
        while isinstance(told[-1], bool):
            told.append(self.told.get(timeout=DEADLINE_S))
        assert isinstance(told[-1], MadeBatch), told
        return told, self.extractor.num_traces - before

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


def test_what_has_become_slow_is_announced_again(making, monkeypatch):
    assert [making.make(number)[0] for number in range(3)][-1] == []
    monkeypatch.setattr(batch_maker, "_QUICK_S", 0.0)
    assert [making.make(number)[0] for number in range(3, 5)] == [[], [True, False]]


def test_features_on_disk_are_read_by_the_readers_and_make_the_same_batch(tmp_path):
    threads, loaded = set(), []

    class Watched(DiskCache):
        def get(self, row):
            threads.add(threading.current_thread().name)
            return super().get(row)

    def load_noted(row, on_piece):
        loaded.append(row)
        return load(row, on_piece)

    # Of the second epoch all is on disk, also what was only a reference in batch 0.
    makings = []
    try:
        for _ in range(2):
            makings.append(Making(Watched(tmp_path, 1 << 30, str), load_noted))
            epoch = [makings[-1].arrays(number) for number in range(PLAN.batches_per_epoch)]
            if len(makings) == 1:
                first, num_loaded = epoch, len(loaded)
    finally:
        for each in makings:
            each.close()
    assert threads <= {"reader-0", "reader-1"}
    assert num_loaded > 0 and len(loaded) == num_loaded
    for one, other in zip(first, epoch, strict=True):
        assert {name: one[name].tobytes() for name in one} == {
            name: other[name].tobytes() for name in other
        }
