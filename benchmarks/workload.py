"""The same work for every contender: a corpus, its prepared run, a data side and a model side.

A fake GPU is one core: contenders pin their data side to `data_core()` and their model side to
`model_core()`, as the workers of a real run on fake GPUs do. TensorFlow is imported only after
`start_tensorflow`, with the threads that a worker on one core has.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import alterations
from quiet_windows import ROOT_VARIABLE

from shared.devices.cores import share_of

TASK_VARIABLE = "TANDEM_BENCH_TASK"  # file of the task, where it is not speech
AHEAD = 8  # batches that every contender may have in flight
BATCH_SIZE = 16
WARM_UP_STEPS = 6
_MOST_PADDING = 512
_CHILD_DEADLINE_S = 240.0


def data_core() -> int:
    return share_of("data", sorted(os.sched_getaffinity(0)))[0]


def model_core() -> int:
    return share_of("model", sorted(os.sched_getaffinity(0)))[-1]


def environment() -> dict[str, str]:
    """For children: our code first, no GPU, no chatter.

    One contender was two to four percent faster or slower in all repeats of one command, and the
    other way round in the next. How memory happens to lie is suspected, not shown: so every child
    gets a word of another length to keep, which moves what is allocated after it.
    """
    extra = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    extra[ROOT_VARIABLE] = os.environ.get(ROOT_VARIABLE) or str(os.getpid())
    extra["TANDEM_BENCH_PADDING"] = "." * (16 * random.randrange(_MOST_PADDING))
    return {**os.environ, **extra}


def make_corpus(folder: Path, num_utterances: int = 400) -> Path:
    """A corpus of espeak-ng's voices, once per folder."""
    corpus = folder / f"corpus-{num_utterances}"
    if not (corpus / "metadata.csv").exists():
        subprocess.run(
            [sys.executable, "-m", "data_worker.speech.demo.corpus", "--out", str(corpus),
             "--num", str(num_utterances)],
            cwd=ROOT, env=environment(), check=True, capture_output=True,
        )  # fmt: skip
    return corpus


def task_of_workload() -> str:
    """What --task names in every contender."""
    return os.environ.get(TASK_VARIABLE) or "speech"


def run_flags(corpus: Path, run: Path, *more: str) -> list[str]:
    """The command of a real run on two fake GPUs that does nothing but train."""
    return [
        sys.executable, "launcher.py", "--train-data", str(corpus), "--run-dir", str(run),
        "--fake-gpus", "2", "--data-gpu", "0", "--model-gpu", "1", "--model-size", "tiny",
        "--batch-size", str(BATCH_SIZE), "--val-fraction", "0", "--validate-every", "0",
        "--checkpoint-every", "0", "--max-steps", "100000000", "--samples", "0", "--no-report",
        "--no-live", "--model-start-delay", "0", "--buffer-size", str(AHEAD), "--cache", "off",
        "--enable-static-shapes", "--fresh", "--task", task_of_workload(), *more,
    ]  # fmt: skip


def prepare(corpus: Path, run: Path, *more: str) -> Path:
    """A run directory from which both sides can be started; returns it."""
    command = [*run_flags(corpus, run, *more), "--prepare-only"]
    subprocess.run(command, cwd=ROOT, env=environment(), check=True, capture_output=True)
    return run


def grow_index(run: Path, num_rows: int) -> None:
    """Give a prepared run an index of so many utterances: its own, again and again."""
    import dataclasses

    import numpy as np

    from shared.plan.index import Column, Index, RaggedColumn, StringColumn

    index = Index.load(run / "index.safetensors")
    times = -(-num_rows // len(index))
    numbers = {
        name: np.tile(column, times)[:num_rows]
        for name, column in index.columns.items()
        if isinstance(column, np.ndarray)
    }
    lengths = np.concatenate([[0], np.cumsum(numbers["num_symbols"], dtype=np.int64)])
    symbols = np.tile(index.symbols.values, times)[: lengths[-1]]
    columns: dict[str, Column] = {
        **numbers,
        "ids": StringColumn.of(f"utterance-{n:08d}" for n in range(num_rows)),
        "paths": StringColumn.of((index.paths.to_list() * times)[:num_rows]),
        "symbols": RaggedColumn(symbols, lengths),
    }
    grown = dataclasses.replace(index, columns=columns, fingerprint="")
    grown.save(run / "index.safetensors")


def child(script: str, *arguments: str, deadline_s: float = _CHILD_DEADLINE_S) -> dict:
    """What a script of ours prints as its last line, as JSON; {"failed": why} if it fails."""
    command = [sys.executable, str(Path(script).resolve()), *arguments]
    try:
        found = subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
            timeout=deadline_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished after {deadline_s:g} s"}
    if found.returncode:
        if os.environ.get("TANDEM_BENCH_VERBOSE"):
            print(found.stderr, file=sys.stderr)
        words = [line for line in found.stderr.splitlines() if line.strip()]
        return {"failed": words[-1] if words else f"exit status {found.returncode}"}
    return json.loads(found.stdout.splitlines()[-1])


def start_tensorflow(cores: set[int], threads: int = 1):
    """Pin this process and import TensorFlow as a worker with so many cores does."""
    os.sched_setaffinity(0, cores)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return tf


class DataParts:
    """What a data process does to a ticket, without the process around it."""

    def __init__(self, run: Path):
        alterations.apply()
        from data_worker.assembly import Assembly
        from data_worker.batches.movement import Movement
        from shared.config.toml_file import load_config
        from shared.plan.index import Index
        from shared.worker.decoding_record import ReadingRecord
        from shared.worker.reports import Reporter

        self.config = load_config(run / "config.toml", task_of_workload())
        self.index = Index.load(run / "index.safetensors")
        parts = Assembly.of_run(run, self.config, self.index, "fake")
        self.plan = parts.plan
        self._done: queue.SimpleQueue = queue.SimpleQueue()
        self._maker = parts.batch_maker(self._done.put, Movement(Reporter(None)), ReadingRecord())

    def ask(self, n: int) -> None:
        from shared.plan.exclusions import Exclusions

        self._maker.submit(n, Exclusions())

    def take(self) -> dict:
        made = self._done.get()
        if isinstance(made, BaseException):
            raise made
        return made.arrays

    def make(self, n: int) -> dict:
        """Batch n from files to finished arrays, nothing before or after it."""
        self.ask(n)
        return self.take()

    def stream(self, first: int = 0):
        """Batches in order, with AHEAD of them asked for."""
        for n in range(first, first + AHEAD):
            self.ask(n)
        while True:
            batch = self.take()
            self.ask(first + AHEAD)
            first += 1
            yield batch


class ModelOfRun:
    """The train step of a run, on arrays of a batch."""

    def __init__(self, run: Path, model_size: str = "tiny"):
        import keras

        from model_worker.training.step import StepSettings, TrainStep
        from shared.config.settings import Config, TaskConfig
        from shared.plan.index import Index
        from shared.task import Facts
        from shared.task.registry import Task

        keras.utils.set_random_seed(1234)
        config = Config(task=TaskConfig(model_size=model_size))
        named = Task.of(task_of_workload())
        task = named.model_side()(config)
        self.model = task.build(Facts(Index.load(run / "index.safetensors"), config))
        self.step = TrainStep(self.model, task, named.form().signature(), StepSettings())
        self._number = 0

    def __call__(self, batch: dict) -> None:
        import tensorflow as tf

        tensors = {name: tf.convert_to_tensor(value) for name, value in batch.items()}
        self.step(tensors, self._number, 1e-4)
        self._number += 1
        if self._number % 10 == 0:
            self.step.read_metrics()  # as a run logs


def leave() -> None:
    """End a child at once: reader, service and loader threads would be waited for."""
    atexit._run_exitfuncs()
    os._exit(0)


def peak_megabytes(pid: int) -> float:
    """The most memory that a living process has had resident."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0
