"""A torch DataLoader around the data side of a run: batches made in worker processes."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import workload
from torch.utils.data import DataLoader, Dataset


class Batches(Dataset):
    """Batch n of a run; each worker process makes its own data side when it is first asked."""

    def __init__(self, run: Path):
        self._run = run
        self._data: workload.DataParts | None = None

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, n: int) -> dict:
        if self._data is None:
            self._data = workload.DataParts(self._run)
        return {name: torch.from_numpy(array) for name, array in self._data.make(n).items()}


class Pinned:
    """Starts a worker on the data side's core; TensorFlow computes the features there."""

    def __init__(self, core: int):
        self._core = core

    def __call__(self, number: int) -> None:
        torch.set_num_threads(1)
        workload.start_tensorflow({self._core})


def loader_of(
    run: Path, core: int, num_workers: int, in_flight: int = workload.AHEAD
) -> DataLoader:
    """Batches in order, as many in flight as the other contenders may have."""
    os.environ.update(workload.environment())
    return DataLoader(
        Batches(run),
        batch_size=None,
        num_workers=num_workers,
        prefetch_factor=max(1, in_flight // num_workers),
        multiprocessing_context="spawn",
        worker_init_fn=Pinned(core),
    )
