"""Puts a data process's parts together from a run's configuration and index."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

from data_worker.batches.batch_maker import MAX_READERS, BatchMaker
from data_worker.batches.cache import COLUMNS, DiskCache, MemoryCache, NoCache, make_room
from data_worker.batches.readers import ReaderPool
from data_worker.speech.audio import load_utterance
from data_worker.speech.features import FEATURES_VERSION, FeatureExtractor
from shared.config.settings import Config
from shared.devices.cores import num_cores
from shared.errors import ReadError
from shared.plan.index import Index, root_folders
from shared.plan.plan import Plan
from shared.plan.plan_of_run import num_data_workers, settings_fingerprint
from shared.stream import messages
from shared.stream.array_block import ArrayBlock
from shared.stream.batch_memory import BatchMemory
from shared.worker.decoding_record import ReadingRecord

# Beside the batches that were asked for: one that is made anew, one that comes too late.
_BEING_MADE = 2


def make_hello(
    name: str, config: Config, index: Index, plan: Plan, device_kind: str, tensorflow: str
) -> messages.Hello:
    """How this data process introduces itself."""
    return messages.Hello(
        worker=name,
        pid=os.getpid(),
        index_fingerprint=index.fingerprint,
        plan_fingerprint=settings_fingerprint(config, plan),
        device_kind=device_kind,
        tensorflow=tensorflow,
        capacity=1,  # the server knows better when it sends this
    )


def make_memory(config: Config, plan: Plan) -> BatchMemory:
    """Memory for this data process's part of the batches that are under way."""
    largest = max(ArrayBlock.num_bytes(shape.arrays()) for shape in plan.buckets)
    share = -(-config.data.pipeline_buffer_size // num_data_workers(config))
    within_budget = (config.data.buffer_megabytes << 20) // largest
    return BatchMemory(largest, max(1, min(share + _BEING_MADE, within_budget)))


def arguments_by_row(config: Config, index: Index) -> Callable[[int], tuple]:
    """A function from a row of the index to what `load_utterance` needs to know of it."""
    roots = root_folders(config.data.train_data, config.data.val_data)
    normalise = config.data.normalise_loudness

    def arguments_of(row: int) -> tuple:
        path = roots[index.root[row]] / index.paths[row]
        start, num_samples = int(index.start[row]), int(index.num_samples[row])
        return path, start, num_samples, int(index.sample_rate[row]), normalise

    return arguments_of


def make_loader(
    config: Config, index: Index, convicted: dict[int, str]
) -> Callable[[int, Callable[[], None]], np.ndarray]:
    """A function from a row of the index to its audio at 22,050 Hz, float32 (samples,).

    Its second argument is called for every piece of the file that has come from the disk. Rows in
    `convicted` are not touched: decoding them is known to end in that signal.
    """

    arguments_of = arguments_by_row(config, index)

    def load(row: int, on_piece: Callable[[], None]) -> np.ndarray:
        arguments = arguments_of(row)
        if row in convicted:
            raise ReadError(
                f"{arguments[0]}: decoding it crashes the process ({convicted[row]}). "
                f"Convert the recording again, or take it out of the metadata."
            )
        return load_utterance(*arguments, on_piece)

    return load


def make_cache(config: Config, index: Index, device_kind: str, run: Path):
    """The feature cache that the configuration asks for."""
    max_bytes, num_writers = config.data.cache_megabytes << 20, num_data_workers(config)
    if config.data.cache == "memory":
        return MemoryCache(max_bytes // num_writers)
    if config.data.cache == "off":
        return NoCache()

    roots = root_folders(config.data.train_data, config.data.val_data)

    def key_of(row: int) -> str:
        return "|".join(
            str(part)
            for part in (
                roots[index.root[row]],
                index.paths[row],
                index.file_size[row],
                index.file_mtime_ns[row],
                index.start[row],
                index.num_samples[row],
            )
        )

    settings = (FEATURES_VERSION, device_kind, config.data.normalise_loudness,
                *map(version, ("tensorflow", "soxr", "soundfile")))  # fmt: skip
    name = hashlib.sha256(repr(settings).encode()).hexdigest()[:16]
    directory = run.parent / ".feature-cache" / name
    wanted_bytes = int(index.num_frames.sum()) * COLUMNS * np.dtype(np.float32).itemsize
    make_room(directory, max_bytes, min(max_bytes, wanted_bytes))
    return DiskCache(directory, max_bytes, key_of, num_writers)


def make_batch_maker(
    config: Config,
    index: Index,
    plan: Plan,
    extractor: FeatureExtractor,
    on_done: Callable,
    on_progress: Callable[[], None],
    cores_busy: Callable[[], float],
    on_long_work: Callable[[bool], None],
    device_kind: str,
    run: Path,
    convicted: dict[int, str],
    take_memory: Callable[[int], np.ndarray | None],
    record: ReadingRecord,
) -> BatchMaker:
    """Readers, features and cache as one maker of batches."""
    cache = make_cache(config, index, device_kind, run)
    readers = ReaderPool(
        make_loader(config, index, convicted),
        config.data.num_workers or max(2, num_cores()),
        on_progress,
        record=record,
        look_up=cache.get,
    )
    return BatchMaker(
        index,
        plan,
        extractor,
        cache,
        readers,
        on_done,
        cores_busy,
        # A number of readers that the user chose is not tuned away.
        config.data.num_workers or MAX_READERS,
        on_long_work,
        take_memory,
    )
