"""Tickets to batches, with real features: what takes long is announced, and what fails is named."""

import queue
import threading
from pathlib import Path
from types import SimpleNamespace

import librosa
import numpy as np
import pytest

from data_worker.batches import batch_maker
from data_worker.batches.batch_filler import BatchFiller
from data_worker.batches.batch_maker import BatchMaker, FailedRow, MadeBatch
from data_worker.batches.cache import DiskCache, MemoryCache
from data_worker.batches.readers import ReaderPool
from data_worker.speech.task import SpeechData
from shared.config.settings import Config
from shared.errors import ReadError
from shared.plan.exclusions import Exclusions
from shared.plan.index import Index, RaggedColumn
from shared.plan.plan import Plan
from shared.speech.batch import FORM
from shared.speech.index_check import STATISTICS
from shared.speech.mel import HOP
from shared.task import Indexed

DEADLINE_S = 60.0
NUM_ROWS = 24
FRAMES = np.arange(40, 40 + NUM_ROWS)
INDEX = Index(
    columns={
        "start": np.zeros(NUM_ROWS, np.int64),
        "num_samples": FRAMES * HOP,
        "num_channels": np.ones(NUM_ROWS, np.int16),
        "sample_rate": np.full(NUM_ROWS, 22_050, np.int32),
        "num_frames": FRAMES,
        "num_symbols": FRAMES // 4,
        "symbols": RaggedColumn.of([np.ones(frames // 4, np.int16) for frames in FRAMES]),
        "speaker": np.zeros(NUM_ROWS, np.int32),
        "split": np.zeros(NUM_ROWS, np.uint8),
    },
    tables={"mel_basis": librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmin=0, fmax=8_000)},
    facts={"symbol_table": ["_", "a"], "speakers": ["one"], **dict.fromkeys(STATISTICS, 1.0)},
    left_out=[],
)
PLAN = Plan.from_index(INDEX, FORM, batch_size=4, seed=1, max_buckets=1, total_train_batches=40)


def load(row, on_piece):
    return np.random.default_rng(row).normal(0, 0.1, FRAMES[row] * HOP).astype(np.float32)


class Making:
    """A batch maker, its cache, and what it tells."""

    def __init__(self, cache=None, load=load):
        self.told = queue.Queue()
        self.task = SpeechData(Config())
        self.task.open(INDEX)
        self.cache = cache or MemoryCache(1 << 30)
        self.readers = ReaderPool(load, 2, look_up=self.cache.get)
        filler = BatchFiller(self.task, lambda row: Indexed(INDEX, row, Path()), self.cache)
        self.maker = BatchMaker(
            PLAN, filler, self.readers, self.told.put, SimpleNamespace(long_work=self.told.put)
        )

    def make(self, batch):
        """What was told of one batch until it was made, and how many graphs it took."""
        told, num_graphs = self._made(batch)
        return told[:-1], num_graphs

    def arrays(self, batch):
        return self._made(batch)[0][-1].arrays

    def _made(self, batch):
        before = self.task.num_graphs
        self.maker.submit(batch, Exclusions())
        told = [self.told.get(timeout=DEADLINE_S)]
        while isinstance(told[-1], bool):
            told.append(self.told.get(timeout=DEADLINE_S))
        assert isinstance(told[-1], MadeBatch), told
        return told, self.task.num_graphs - before

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
        for row in {*batch.rows.tolist(), *batch.companions.tolist()} - {-1}:
            making.cache.put(row, np.zeros((FRAMES[row], 82), np.float32))
    assert making.make(0) == ([True, False], 0)
    assert making.make(1) == ([], 0)
    told, num_graphs = making.make(2)
    assert num_graphs > 0 and told == [True, False]


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


def test_the_batch_of_an_example_that_can_not_be_read_fails_with_its_reason():
    def load_but_one(row, on_piece):
        if row == PLAN.batch(0).rows[1]:
            raise ReadError("it is gone")
        return load(row, on_piece)

    making = Making(load=load_but_one)
    making.maker.submit(0, Exclusions())
    told = making.told.get(timeout=DEADLINE_S)
    making.close()
    assert told == FailedRow(0, PLAN.batch(0).rows[1], "it is gone")
