"""What steps on a data set would take of a GPU's memory, as check-data tells of it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from data_worker.preparation.examine import DataSet, Progress, make_pool
from data_worker.preparation.prepare import build_index
from data_worker.speech.data_check.examined import ExaminedSpeech
from shared.config.settings import Config
from shared.config.toml_file import write_config
from shared.devices.gpus import Gpu
from shared.run.directory import RunDirectory
from shared.speech.batch import FORM
from shared.worker.memory_ahead import MemoryTable, memory_table


def memory_ahead(
    examined: ExaminedSpeech, config: Config, gpu: Gpu | None, free_mb: int, progress: Progress
) -> MemoryTable:
    """Predicted for every size of the model, on batches of the longest clips.

    Raises:
        TandemError: it can't be told.
    """
    data = DataSet.of(config, examined.side)
    with tempfile.TemporaryDirectory(prefix="tandem-memory-") as folder, make_pool() as pool:
        run = RunDirectory(Path(folder) / "run")
        run.create()
        build_index(data, examined.examined, pool, progress).save(run.index)
        write_config(config, run.config)
        progress(0, 0, "tracing the steps of every model size")
        return memory_table(config, run, gpu, free_mb, FORM.lengths)
