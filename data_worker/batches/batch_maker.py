"""Tickets to batches: utterances are read ahead in threads, features made a batch at a time."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np

from data_worker.batches.cache import COLUMNS
from data_worker.batches.readers import ReaderPool, ReadUtterance, next_reader_count
from data_worker.speech.audio import RowSpace, fill_row, pad_length
from data_worker.speech.features import FeatureExtractor
from shared.diagnosis.wait_attribution import Made
from shared.errors import ReadError
from shared.plan.buckets import REFERENCE_FRAMES, BucketShape
from shared.plan.exclusions import Exclusions
from shared.plan.index import Index
from shared.plan.plan import FILLER, BatchPlan, Plan
from shared.speech.mel import HOP, LOG_FLOOR, MEL_BINS
from shared.stream.array_block import ArrayBlock

_TUNE_EVERY_BATCHES = 8
_IDLE_OVER_BATCHES = 16
MAX_READERS = 64
# Tickets at once, to begin with: enough to read ahead, few enough to share the work out evenly.
_FIRST_CAPACITY = 8
# Features that take longer are announced, batch by batch: on a machine that is busy with other things
# they could take longer than a process may be silent.
_QUICK_S = 1.0


@dataclasses.dataclass(frozen=True)
class MadeBatch:
    """A finished batch, and where its time went; the times are those of `perf_counter`."""

    batch: int
    exclusions_version: int
    arrays: dict[str, np.ndarray]
    made: Made
    submitted_s: float
    finished_s: float


@dataclasses.dataclass(frozen=True)
class FailedRow:
    """A batch that can't be made because of one utterance."""

    batch: int
    row: int
    reason: str


@dataclasses.dataclass
class _Job:
    plan: BatchPlan
    version: int
    features: dict[int, np.ndarray]  # row -> known (frames, 82)
    read: dict[int, Future[ReadUtterance]]  # row -> to come
    submitted_s: float
    look_up_ms: float = 0.0

    def graphs(self, audio: dict[int, np.ndarray]) -> tuple[BucketShape, bool, bool]:
        """The graphs that it needs: those of this shape, of features and of references or not."""
        rows = set(self.plan.rows.tolist())
        has_references = not audio.keys() <= rows
        return self.plan.shape, not audio.keys().isdisjoint(rows), has_references


class BatchMaker:
    """Works on tickets in the order they come; decoding, features and sending overlap."""

    def __init__(
        self,
        index: Index,
        plan: Plan,
        extractor: FeatureExtractor,
        cache,
        readers: ReaderPool,
        on_done: Callable[[MadeBatch | FailedRow | BaseException], None],
        cores_busy: Callable[[], float] = lambda: 1.0,
        max_readers: int = MAX_READERS,
        on_long_work: Callable[[bool], None] = lambda begins: None,
        take_memory: Callable[[int], np.ndarray | None] = lambda num_bytes: None,
    ):
        """`take_memory(num_bytes)` gives memory for a batch, where there is a better place for it.

        `on_long_work` is told of the beginning and of the end of what may take a while: features
        whose graphs have to be made, or have not been seen to be quick.
        """
        self._index = index
        self._plan = plan
        self._extractor = extractor
        self._cache = cache
        self._readers = readers
        self._on_done = on_done
        self._cores_busy = cores_busy
        self._max_readers = max_readers
        self._on_long_work = on_long_work
        self._take_memory = take_memory
        self._space = RowSpace()
        self._quick: set[tuple[BucketShape, bool, bool]] = set()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._waited_ms = self._worked_ms = 0.0
        self._idle_and_all_ms: deque[tuple[float, float]] = deque(maxlen=_IDLE_OVER_BATCHES)
        self._num_made = 0
        self.capacity = _FIRST_CAPACITY
        self._thread = threading.Thread(target=self._run, name="features", daemon=True)
        self._thread.start()

    def submit(self, batch: int, exclusions: Exclusions) -> None:
        """Begin with a ticket: what is not at hand is asked of the readers at once.

        It reads no file itself: who calls it has a socket and a launcher to answer.
        """
        submitted_s = time.perf_counter()
        plan = self._plan.batch(batch, exclusions)
        job = _Job(plan, exclusions.version, {}, {}, submitted_s)
        for row in np.unique(np.concatenate([plan.rows, plan.references])).tolist():
            if row == FILLER:
                continue
            known = self._cache.at_hand(row)
            if known is None:
                job.read[row] = self._readers.read(row)
            else:
                job.features[row] = known
        job.look_up_ms = (time.perf_counter() - job.submitted_s) * 1000
        self._jobs.put(job)

    @property
    def num_utterances(self) -> int:
        """All that there are."""
        return len(self._index)

    @property
    def num_cached(self) -> int:
        """Utterances whose features need not be made again."""
        return self._cache.num_entries

    def close(self) -> None:
        self._jobs.put(None)

    def _run(self) -> None:
        free_s = None  # before the first ticket it was not idle: the run had not begun
        while (job := self._jobs.get()) is not None:
            idle_s = time.perf_counter() - free_s if free_s is not None else 0.0
            try:
                self._on_done(self._make(job, idle_s * 1000))
            except BaseException as error:  # the serving loop decides what it means
                self._on_done(error)
            free_s = time.perf_counter()

    def _make(self, job: _Job, idle_ms: float) -> MadeBatch | FailedRow:
        started_s = time.perf_counter()
        audio: dict[int, np.ndarray] = {}
        reading_ms = decoding_ms = 0.0
        for row, future in job.read.items():
            try:
                read = future.result()
            except ReadError as error:
                return FailedRow(job.plan.index, row, str(error))
            if read.features is not None:
                job.features[row] = read.features
            else:
                audio[row] = read.audio
            reading_ms += read.reading_ms
            decoding_ms += read.decoding_ms
        read_at_s = time.perf_counter()
        graphs = job.graphs(audio)
        is_announced = graphs not in self._quick
        if is_announced:
            self._on_long_work(True)
        traces_before = self._extractor.num_traces
        arrays = self._assemble(job, audio)
        has_compiled = self._extractor.num_traces > traces_before
        done_s = time.perf_counter()
        if is_announced:
            self._on_long_work(False)
        if not has_compiled and done_s - read_at_s < _QUICK_S:
            self._quick.add(graphs)
        else:
            self._quick.discard(graphs)  # the disk that features are kept on may have become slow
        audio_wait_ms, features_ms = (read_at_s - started_s) * 1000, (done_s - read_at_s) * 1000
        self._tune(audio_wait_ms, features_ms)
        self._idle_and_all_ms.append((idle_ms, idle_ms + audio_wait_ms + features_ms))
        idle, all_ms = (sum(each) for each in zip(*self._idle_and_all_ms, strict=True))
        made = Made(
            look_up=job.look_up_ms,
            audio_wait=audio_wait_ms,
            reading=reading_ms,
            decoding=decoding_ms,
            features=0.0 if has_compiled else features_ms,
            compiling=features_ms if has_compiled else 0.0,
            idle_share=idle / max(1e-9, all_ms),
            readers=float(self._readers.num_threads),
            cores_busy=self._cores_busy(),
        )
        return MadeBatch(job.plan.index, job.version, arrays, made, job.submitted_s, done_s)

    def _tune(self, waited_ms: float, worked_ms: float) -> None:
        self._waited_ms += waited_ms
        self._worked_ms += worked_ms
        self._num_made += 1
        if self._num_made % _TUNE_EVERY_BATCHES == 0:
            share = self._waited_ms / max(1e-9, self._waited_ms + self._worked_ms)
            before = self._readers.num_threads
            count = next_reader_count(before, self._max_readers, share, self._cores_busy())
            self._readers.grow_to(count)
            # More readers need more tickets to read for.
            self.capacity = max(self.capacity, self.capacity * count // before)
            self._waited_ms = self._worked_ms = 0.0

    def _assemble(self, job: _Job, audio: dict[int, np.ndarray]) -> dict[str, np.ndarray]:
        plan, index, shape = job.plan, self._index, job.plan.shape
        arrays = ArrayBlock(shape.arrays(), self._take_memory)
        for name in ("symbols", "energy", "pitch", "speaker", "weight"):
            arrays[name].fill(0)
        arrays["mel"].fill(np.log(LOG_FLOOR))
        arrays["reference_mel"].fill(np.log(LOG_FLOOR))
        arrays["symbol_lengths"].fill(1)
        arrays["mel_lengths"].fill(1)
        arrays["rows"][:] = plan.rows
        self._compute_missing(job, audio)
        for slot, row in enumerate(plan.rows.tolist()):
            if row == FILLER:
                continue
            features, symbols = job.features[row], index.symbols[row]
            frames = len(features)
            arrays["symbols"][slot, : len(symbols)] = symbols
            arrays["symbol_lengths"][slot] = len(symbols)
            arrays["mel"][slot, :frames] = features[:, :MEL_BINS]
            arrays["energy"][slot, :frames] = features[:, MEL_BINS]
            arrays["pitch"][slot, :frames] = features[:, MEL_BINS + 1]
            arrays["mel_lengths"][slot] = frames
            arrays["speaker"][slot] = index.speaker[row]
            arrays["weight"][slot] = 1.0
        self._fill_references(job, audio, arrays["reference_mel"])
        return arrays

    def _compute_missing(self, job: _Job, audio: dict[int, np.ndarray]) -> None:
        """Features of the batch's own utterances that were not cached, all in one call."""
        missing = [
            (slot, row)
            for slot, row in enumerate(job.plan.rows.tolist())
            if row != FILLER and row not in job.features
        ]
        if not missing:
            return
        shape = job.plan.shape
        rows = self._space.rows(shape.rows, shape.frames)
        rows[:, : pad_length(1)] = 0.0  # of those that are not missing, one frame is looked at
        lengths = np.ones(shape.rows, np.int32)
        for slot, row in missing:
            fill_row(rows[slot], audio[row])
            lengths[slot] = len(audio[row]) // HOP
        mel, energy, pitch = self._extractor(rows, lengths)
        mel, energy, pitch = np.asarray(mel), np.asarray(energy), np.asarray(pitch)
        for slot, row in missing:
            features = np.empty((lengths[slot], COLUMNS), np.float32)
            features[:, :MEL_BINS] = mel[slot, : lengths[slot]]
            features[:, MEL_BINS] = energy[slot, : lengths[slot]]
            features[:, MEL_BINS + 1] = pitch[slot, : lengths[slot]]
            job.features[row] = features
            self._cache.put(row, features)

    def _fill_references(self, job: _Job, audio: dict[int, np.ndarray], target: np.ndarray) -> None:
        """A crop of each reference clip's mel: from its features if they are known, else made."""
        missing: list[tuple[int, int, int]] = []
        rows = np.zeros((len(target), pad_length(REFERENCE_FRAMES)), np.float32)
        lengths = np.ones(len(target), np.int32)
        for slot, row in enumerate(job.plan.references.tolist()):
            if row == FILLER:
                continue
            known = job.features.get(row)
            frames = len(known) if known is not None else len(audio[row]) // HOP
            start = crop_start(frames, float(job.plan.reference_offsets[slot]))
            count = min(frames, REFERENCE_FRAMES)
            if known is not None:
                target[slot] = tiled(known[start : start + count, :MEL_BINS])
            else:
                fill_row(rows[slot], audio[row], first_frame=start)
                lengths[slot] = count
                missing.append((slot, start, count))
        if missing:
            mel = np.asarray(self._extractor.mel(rows, lengths))
            for slot, _, count in missing:
                target[slot] = tiled(mel[slot, :count])


def crop_start(frames: int, offset: float) -> int:
    """First frame of a reference crop, for an offset in [0, 1)."""
    return int(offset * max(1, frames - REFERENCE_FRAMES + 1))


def tiled(mel: np.ndarray) -> np.ndarray:
    """A clip's mel (frames, 80), repeated to REFERENCE_FRAMES where it is shorter."""
    repeats = -(-REFERENCE_FRAMES // len(mel))
    return np.tile(mel, (repeats, 1))[:REFERENCE_FRAMES] if repeats > 1 else mel
