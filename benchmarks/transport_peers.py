"""More ways to move batches between two processes, for transport.py: torch, shared memory, Ray.

Each is an iterator over the sizes of the batches that arrive; it starts its producer on the other
core by itself. The batches are the same arrays, ready before the first is sent.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterator
from multiprocessing import shared_memory
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from shared.stream.array_block import ArrayBlock

CREDITS = 8
MakeBatches = Callable[[int], "list[ArrayBlock]"]


class EndlessBatches:
    """A torch data set (by its methods alone) that gives out the same few batches for ever."""

    def __init__(self, make_batches: MakeBatches, megabytes: int):
        self._make_batches = make_batches
        self._megabytes = megabytes
        self._batches: list[dict] = []

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, n: int) -> dict:
        if not self._batches:
            self._batches = [dict(batch) for batch in self._make_batches(self._megabytes)]
        return self._batches[n % len(self._batches)]


class Pinned:
    def __init__(self, core: int):
        self._core = core

    def __call__(self, number: int) -> None:
        os.sched_setaffinity(0, {self._core})


def receive_torch(make_batches: MakeBatches, megabytes: int, core: int) -> Iterator[int]:
    """A DataLoader with one worker process, which passes tensors through shared memory."""
    from torch.utils.data import DataLoader

    loader = DataLoader(
        EndlessBatches(make_batches, megabytes), batch_size=None, num_workers=1,
        prefetch_factor=CREDITS, multiprocessing_context="spawn", worker_init_fn=Pinned(core),
        sampler=range(10**9),
    )  # fmt: skip
    for batch in loader:
        yield sum(tensor.nbytes for tensor in batch.values())


def fill_for_ever(make_batches: MakeBatches, megabytes: int, core: int, name: str, free, full):
    """Copies batches into the slots of a shared block, as they become free."""
    os.sched_setaffinity(0, {core})
    block = shared_memory.SharedMemory(name)
    batches = make_batches(megabytes)
    size = len(batches[0].block)
    for batch in itertools.cycle(batches):
        slot = free.get()
        np.ndarray(size, np.uint8, block.buf, slot * size)[:] = batch.block
        full.put(slot)


def receive_shared(make_batches: MakeBatches, megabytes: int, core: int) -> Iterator[int]:
    """multiprocessing.shared_memory as a ring, copied in and copied out, slots by queues."""
    context = multiprocessing.get_context("spawn")
    size = len(make_batches(megabytes)[0].block)
    block = shared_memory.SharedMemory(create=True, size=size * CREDITS)
    try:
        free, full = context.SimpleQueue(), context.SimpleQueue()
        for slot in range(CREDITS):
            free.put(slot)
        arguments = (make_batches, megabytes, core, block.name, free, full)
        context.Process(target=fill_for_ever, args=arguments, daemon=True).start()
        while True:
            slot = full.get()
            batch = np.ndarray(size, np.uint8, block.buf, slot * size).copy()
            free.put(slot)
            yield batch.nbytes
    finally:
        block.unlink()


def receive_ray(make_batches: MakeBatches, megabytes: int, core: int) -> Iterator[int]:
    """Ray's object store: an actor puts batches there, the receiver gets them, eight at a time."""
    import ray

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(
        num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False,
        object_store_memory=max(128, 2 * CREDITS * (megabytes + 2)) << 20,  # it wants 75 MB
    )  # fmt: skip

    @ray.remote
    class Producer:
        def __init__(self):
            os.sched_setaffinity(0, {core})
            self._batches = itertools.cycle([dict(batch) for batch in make_batches(megabytes)])

        def next(self) -> dict:
            return next(self._batches)

    actor: Any = Producer  # ray has made another class of it
    producer = actor.remote()
    waiting = [producer.next.remote() for _ in range(CREDITS)]
    try:
        while True:
            batch = ray.get(waiting.pop(0))
            waiting.append(producer.next.remote())
            yield sum(array.nbytes for array in batch.values())
    finally:
        ray.shutdown()
