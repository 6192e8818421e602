"""Puts a data process's parts together from a run's configuration, index and task."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from data_worker.batches.batch_filler import BatchFiller
from data_worker.batches.batch_maker import MAX_READERS, BatchMaker, FailedRow, MadeBatch
from data_worker.batches.cache import DiskCache, FeatureCache, MemoryCache, NoCache, make_room
from data_worker.batches.movement import Movement
from data_worker.batches.purity import PurityLook
from data_worker.batches.readers import ReaderPool
from data_worker.batches.reading import make_loader
from shared.config.settings import Config
from shared.devices.cores import num_cores
from shared.plan.index import Index, root_folders
from shared.plan.plan import Plan
from shared.plan.plan_of_run import (
    example_of_row,
    num_data_workers,
    plan_of,
    settings_fingerprint,
)
from shared.run.task_identity import recipe_of
from shared.stream import messages
from shared.stream.array_block import ArrayBlock
from shared.stream.batch_memory import BatchMemory
from shared.task import DataSide
from shared.task.registry import Task
from shared.worker.decoding_record import ReadingRecord

# Beside the batches that were asked for: one that is made anew, one that comes too late.
_BEING_MADE = 2
# Columns that say where an example stands in this index, not what it is.
_NOT_READ = {"line", "split", "root", "paths", "file_size", "file_mtime_ns"}


@dataclasses.dataclass(frozen=True)
class Assembly:
    """What a data process makes batches from: built once, before its socket."""

    run: Path
    config: Config
    index: Index
    plan: Plan
    task: DataSide
    device_kind: str
    say: Callable[[str], None] = lambda text: None

    @classmethod
    def of_run(
        cls,
        run: Path,
        config: Config,
        index: Index,
        device_kind: str,
        say: Callable[[str], None] = lambda text: None,
    ) -> Assembly:
        """The task gets ready to make features: TensorFlow's device must be settled.

        `say` takes a line for the run's story.
        """
        task = Task.of(config.run.task).data_side()(config)
        task.open(index)
        return cls(run, config, index, plan_of(config, index), task, device_kind, say)

    def hello(self, name: str, tensorflow: str) -> messages.Hello:
        """How this data process introduces itself."""
        return messages.Hello(
            worker=name,
            pid=os.getpid(),
            index_fingerprint=self.index.fingerprint,
            plan_fingerprint=settings_fingerprint(self.config, self.plan),
            recipe=self._recipe(),
            device_kind=self.device_kind,
            tensorflow=tensorflow,
            capacity=1,  # the server knows better when it sends this
        )

    def memory(self) -> BatchMemory:
        """Memory for this data process's part of the batches that are under way to one replica."""
        data = self.config.data
        largest = max(ArrayBlock.num_bytes(shape.arrays()) for shape in self.plan.buckets)
        share = -(-data.pipeline_buffer_size // num_data_workers(self.config))
        within_budget = (data.buffer_megabytes << 20) // largest
        return BatchMemory(largest, max(1, min(share + _BEING_MADE, within_budget)))

    def cache(self) -> FeatureCache:
        """The feature cache that the configuration asks for."""
        data = self.config.data
        max_bytes, num_writers = data.cache_megabytes << 20, num_data_workers(self.config)
        if data.cache == "memory":
            return MemoryCache(max_bytes // num_writers)
        if data.cache == "off":
            return NoCache()
        recipe = {**self._recipe(), "device": self.device_kind}
        name = hashlib.sha256(repr(sorted(recipe.items())).encode()).hexdigest()[:16]
        directory = self.run.parent / ".feature-cache" / name
        of_a_row = max(shape.nbytes // shape.rows for shape in self.plan.buckets)
        make_room(directory, max_bytes, min(max_bytes, of_a_row * len(self.index)))
        return DiskCache(directory, max_bytes, self._cache_key_of, num_writers)

    def _recipe(self) -> dict[str, str]:
        return recipe_of(Task.of(self.config.run.task), self.task)

    def _cache_key_of(self, row: int) -> str:
        """All that decides an example's features, but for the recipe."""
        index, task = self.index, self.task
        roots = root_folders(self.config.data.train_data or "", self.config.data.val_data)
        names = index.columns.keys() if task.read_columns is None else task.read_columns
        parts = [str(roots[index.root[row]]), index.paths[row]]
        for name in ("file_size", "file_mtime_ns", *sorted({*names} - _NOT_READ)):
            value = index.columns[name][row]
            parts.append(value.tobytes().hex() if isinstance(value, np.ndarray) else str(value))
        return "|".join(parts)

    def batch_maker(
        self,
        on_done: Callable[[MadeBatch | FailedRow | BaseException], None],
        movement: Movement,
        record: ReadingRecord,
        convicted: dict[int, str] | None = None,
        cores_busy: Callable[[], float] = lambda: 1.0,
    ) -> BatchMaker:
        """Readers, features and cache as one maker of batches."""
        cache = self.cache()
        example_of = example_of_row(self.config, self.index)
        num_workers = self.config.data.num_workers
        is_users = Task.of(self.config.run.task).has_data  # tests hold those that are built in
        purity = PurityLook(self.task, self.say) if is_users else None
        readers = ReaderPool(
            make_loader(self.task, example_of, convicted or {}),
            num_workers or max(2, num_cores()),
            movement.note,
            record=record,
            look_up=cache.get,
        )
        return BatchMaker(
            self.plan,
            BatchFiller(self.task, example_of, cache, purity),
            readers,
            on_done,
            movement,
            cores_busy,
            # A number of readers that the user chose is not tuned away.
            num_workers or MAX_READERS,
        )
