"""The configuration of a run: frozen sections, every field a flag and a TOML key."""

from __future__ import annotations

import dataclasses
from typing import Any

from shared.config.option import check_section, option
from shared.errors import ConfigError
from shared.task.registry import DEFAULT as TASK
from shared.task.registry import settings_class

TaskConfig = settings_class()


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Where the data is, how it is turned into batches, and on which GPUs."""

    train_data: str | None = option("str", None, "folder of the data to train on", decides="index")
    val_data: str | None = option(
        "str",
        None,
        "folder of the data to validate on (default: a held-out part)",
        decides="index",
    )
    data_gpu: tuple[int, ...] | int | None = option(
        "gpus",
        None,
        "GPU that prepares batches; 0,2 starts one data process on each",
    )
    model_gpu: tuple[int, ...] | int | None = option(
        "gpus",
        None,
        "GPU that trains the model; 1,2 trains one model on both, a replica on each",
    )
    data_gpu_memory: int = option(
        "int",
        0,
        "cap on the data GPU's memory in MB (0 = grow as needed)",
        minimum=0,
    )
    model_gpu_memory: int = option(
        "int",
        0,
        "cap on the model GPU's memory in MB (0 = grow as needed)",
        minimum=0,
    )
    pipeline_buffer_size: int = option(
        "int",
        50,
        "most batches asked for, received or waiting on the device at once",
        flag="--buffer-size",
        minimum=1,
        maximum=100000,
    )
    buffer_megabytes: int = option(
        "int",
        2048,
        "most memory those batches may take (one batch is always admitted)",
        minimum=1,
    )
    model_start_delay: float = option(
        "float",
        2.0,
        "seconds that the queue fills before training begins, in multi-GPU mode",
        minimum=0,
        maximum=3600,
    )
    batch_size: int = option(
        "int or auto",
        32,
        "examples in a batch; auto: as many as the model GPU's memory holds",
        minimum=1,
        maximum=65536,
        decides="stream",
    )
    enable_static_shapes: bool = option(
        "bool",
        False,
        "one shape for all batches instead of one per bucket",
        decides="stream",
    )
    max_buckets: int = option(
        "int",
        8,
        "most length buckets, and so compiled graphs",
        minimum=1,
        maximum=64,
        decides="stream",
    )
    num_workers: int = option(
        "int",
        0,
        "reader threads in each data process (0 = from the cores)",
        minimum=0,
        maximum=1024,
    )
    cache: str = option(
        "str",
        "memory",
        "where finished features are kept for later epochs",
        choices=("off", "memory", "disk"),
    )
    cache_megabytes: int = option("int", 2048, "most that the feature cache may take", minimum=1)
    val_fraction: float = option(
        "float",
        0.05,
        "share held out for validation when there is no --val-data",
        minimum=0,
        maximum=0.5,
        decides="index",
    )
    max_bad_fraction: float = option(
        "float",
        0.05,
        "more unusable examples than this end the run",
        minimum=0,
        maximum=1,
        decides="look",
    )

    def __post_init__(self) -> None:
        check_section(self)
        if len(self.model_gpus) == 1:
            object.__setattr__(self, "model_gpu", self.model_gpus[0])

    @property
    def data_gpus(self) -> tuple[int, ...]:
        """Those named by `data_gpu`, of which there may be one, several or none."""
        return (self.data_gpu,) if isinstance(self.data_gpu, int) else self.data_gpu or ()

    @property
    def model_gpus(self) -> tuple[int, ...]:
        """Those named by `model_gpu`, the same."""
        return (self.model_gpu,) if isinstance(self.model_gpu, int) else self.model_gpu or ()

    @property
    def num_model_replicas(self) -> int:
        """How many model processes share the batches of each step."""
        return max(1, len(self.model_gpus))


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """How the model is computed."""

    xla: bool = option("bool", False, "compile the training step with XLA")
    precision: str = option(
        "str",
        "auto",
        "numbers to compute in; auto: bfloat16 or float16 on a GPU that has units for it",
        choices=("auto", "float32", "tf32", "bfloat16", "float16"),
    )

    def __post_init__(self) -> None:
        check_section(self)


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How long and how the model is trained."""

    epochs: int = option("int", 100, "passes over the training set", minimum=1)
    max_steps: int = option(
        "int",
        0,
        "end after this many optimizer steps (0 = by epochs)",
        minimum=0,
    )
    max_minutes: float = option(
        "float",
        0.0,
        "end after this much wall clock, start-up included (0 = no limit)",
        minimum=0,
    )
    minutes_share: float = option(
        "float",
        1.0,
        "share of max_minutes that this run takes, of one command that trains two",
        minimum=0.01,
        maximum=1,
    )
    init_from: str | None = option(
        "str", None, "run directory whose weights a new run begins with (fine-tuning)"
    )
    grad_accum: int = option(
        "int",
        0,
        "batches that make one optimizer step, over all model GPUs (0 = one for each of them)",
        minimum=0,
        maximum=4096,
        decides="stream",
    )
    learning_rate: float = option(
        "float",
        0.0,
        "peak learning rate (0 = the task's own)",
        minimum=0,
        maximum=10,
    )
    warmup_steps: int = option(
        "int",
        0,
        "steps of rising learning rate (0 = fitted to the budget)",
        minimum=0,
    )
    optimizer: str = option(
        "str",
        "muon",
        "AdamW for all weights, or Muon for the inner matrices and AdamW for the rest",
        choices=("muon", "adamw"),
        decides="model",
    )
    weight_decay: float = option(
        "float", 0.01, "pull of the weights towards zero", minimum=0, maximum=10
    )
    gradient_clip: float = option("float", 1.0, "largest global norm of a gradient", minimum=1e-6)
    ema_decay: float = option(
        "float",
        0.0,
        "decay of the averaged weights that validate and speak (0 = fitted to the budget)",
        minimum=0,
        maximum=0.999999,
    )
    validate_every: int = option(
        "int",
        500,
        "steps between validations (0 = only at the end)",
        minimum=0,
        decides="stream",
    )
    checkpoint_every: int = option(
        "int",
        500,
        "steps between checkpoints (0 = only at the end)",
        minimum=0,
    )
    on_save_error: str = option(
        "str",
        "continue",
        "what to do when a checkpoint can not be written",
        choices=("continue", "stop"),
    )
    keep_checkpoints: int = option(
        "int",
        3,
        "newest checkpoints that are kept, beside the best",
        minimum=1,
    )
    early_stopping: int = option(
        "int",
        0,
        "end after this many validations without a better one (0 = never)",
        minimum=0,
    )
    log_every: int = option("int", 10, "steps between logged ones", minimum=1)
    max_nonfinite_steps: int = option(
        "int",
        5,
        "steps in a row without a finite gradient before rolling back",
        minimum=1,
    )
    seed: int = option(
        "int",
        1234,
        "seed of everything random",
        minimum=0,
        maximum=2**31 - 1,
        decides="stream",
    )
    deterministic: bool = option(
        "bool",
        False,
        "bit-exact: the same run twice ends in the same weights",
    )

    @property
    def minutes(self) -> float:
        """The run's own part of `max_minutes`; 0 without a limit."""
        return self.max_minutes * self.minutes_share

    def __post_init__(self) -> None:
        check_section(self)
        if self.deterministic and self.max_minutes:
            raise ConfigError(
                "max_minutes depends on the clock, so it can't be used with deterministic. "
                "Give max_steps (--max-steps) instead of --max-minutes, or leave out "
                "--deterministic."
            )


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The run itself: its directory, its processes, what it writes down."""

    run_dir: str | None = option(
        "str",
        None,
        "directory of the run (default: runs/<date-time>)",
        saved=False,
    )
    run_id: str | None = option("str", None, "identity of the run on the wire")
    task: str = option(
        "str",
        TASK,
        "what is trained: speech, vocoder, or your own FILE.py (or FILE.py:MODEL)",
        saved=False,
        in_files=False,  # a run directory, and what is in one, never names code to be run
    )
    accept_edited_task: bool = option(
        "bool",
        False,
        "go on although the task's file, or a library its features depend on, has changed",
        saved=False,
    )
    fake_gpus: int = option(
        "int",
        0,
        "believe in this many GPUs and use shares of the CPU instead",
        minimum=0,
        maximum=64,
    )
    data_workers: int = option(
        "int",
        1,
        "data processes on the data GPU or the CPU",
        minimum=1,
        maximum=64,
    )
    spare_data_worker: bool = option(
        "bool",
        False,
        "keep a warm data process on each data GPU that takes over when one dies",
    )
    max_restarts: int = option(
        "int",
        10,
        "restarts of one process within ten minutes before the run is given up",
        minimum=0,
    )
    endpoint: str | None = option(
        "str",
        None,
        "where batches flow: ipc://PATH or tcp://127.0.0.1:PORT (default: a private ipc socket)",
    )
    keys: str | None = option(
        "str",
        None,
        "folder of 'launcher.py keys', for an endpoint beyond this machine: tcp://HOST:PORT",
    )
    samples: int = option(
        "int", 2, "held-out examples shown at each validation", minimum=0, maximum=16
    )
    report: bool = option("bool", True, "write report.html at the end of the run")
    on_event: str | None = option(
        "str",
        None,
        "command that is told what happens: a line of JSON for each event on its standard input",
        saved=False,
        in_files=False,  # the same
    )
    audit: bool = option("bool", False, "write every trained batch to audit.jsonl")
    live: bool = option(
        "bool", True, "show the live view when the output is a terminal", saved=False
    )
    fresh: bool = option(
        "bool",
        False,
        "start over although the run directory has a checkpoint",
        saved=False,
    )
    prepare_only: bool = option(
        "bool",
        False,
        "look at the data, write the run directory and stop",
        saved=False,
    )

    def __post_init__(self) -> None:
        check_section(self)

    @property
    def wire_id(self) -> str:
        """The identity on the wire of a run that was prepared.

        Raises:
            ConfigError: it has none.
        """
        if self.run_id is None:
            raise ConfigError(
                "run_id is missing, which every prepared run has in its config.toml. The launcher "
                "adds it when it is started with this --run-dir."
            )
        return self.run_id


@dataclasses.dataclass(frozen=True)
class Config:
    """Everything one training run is made from."""

    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    run: RunConfig = dataclasses.field(default_factory=RunConfig)
    task: Any = dataclasses.field(default_factory=TaskConfig)  # the data side's own options

    def __post_init__(self) -> None:
        """Settle how many batches a step has: that stays, whatever trains the run later.

        Raises:
            ConfigError: the model GPUs can't share them evenly.
        """
        num_replicas, grad_accum = self.data.num_model_replicas, self.training.grad_accum
        if not grad_accum:
            training = dataclasses.replace(self.training, grad_accum=num_replicas)
            object.__setattr__(self, "training", training)
        elif grad_accum % num_replicas:
            fitting = [n for n in range(1, num_replicas + 1) if grad_accum % n == 0]
            raise ConfigError(
                f"grad_accum is {grad_accum}, which {num_replicas} model GPUs can't share evenly. "
                f"Name {' or '.join(map(str, fitting))} with --model-gpu, or give a new run a "
                f"--grad-accum of {num_replicas} or {2 * num_replicas}."
            )


SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "task": TaskConfig,
    "model": ModelConfig,
    "training": TrainingConfig,
    "run": RunConfig,
}
