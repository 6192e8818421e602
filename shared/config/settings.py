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

    train_data: str | None = option(
        "str",
        None,
        "folder with the data to train on, or its metadata file",
        topic="data",
        first=1,
        value="DATA",
        decides="index",
        is_path=True,
    )
    val_data: str | None = option(
        "str",
        None,
        "folder with the data to validate on (without it, part of the training data is held out)",
        topic="data",
        value="DATA",
        decides="index",
        is_path=True,
    )
    data_gpu: tuple[int, ...] | int | None = option(
        "gpus",
        None,
        "GPU that prepares the batches; 0,2 starts a data process on each of the two",
        topic="gpus",
        first=6,
    )
    model_gpu: tuple[int, ...] | int | None = option(
        "gpus",
        None,
        "GPU that trains the model; 1,2 trains one model on both",
        topic="gpus",
        first=7,
    )
    model_replicas: int = option(
        "int",
        0,
        "model processes that share the batches of each step (0 = one for each model GPU)",
        topic="gpus",
        minimum=0,
        maximum=64,
    )
    data_gpu_memory: int = option(
        "int",
        0,
        "most memory to use on each data GPU, in MB (0 = as much as is needed)",
        topic="gpus",
        value="MB",
        minimum=0,
    )
    model_gpu_memory: int = option(
        "int",
        0,
        "most memory to use on each model GPU, in MB (0 = as much as is needed)",
        topic="gpus",
        value="MB",
        minimum=0,
    )
    pipeline_buffer_size: int = option(
        "int",
        50,
        "most batches in the queue at once, counting those that are still being made",
        topic="pace",
        flag="--buffer-size",
        minimum=1,
        maximum=100000,
    )
    buffer_megabytes: int = option(
        "int",
        2048,
        "most memory that the queue may take, in MB (it always has room for one batch)",
        topic="pace",
        value="MB",
        minimum=1,
    )
    model_start_delay: float = option(
        "float",
        2.0,
        "seconds in which the queue fills before training starts (with two GPUs)",
        topic="pace",
        value="S",
        minimum=0,
        maximum=3600,
    )
    batch_size: int = option(
        "int or auto",
        32,
        "examples in a batch; auto = as many as fit into the model GPU's memory",
        topic="gpus",
        first=8,
        minimum=1,
        maximum=65536,
        decides="stream",
    )
    enable_static_shapes: bool = option(
        "bool",
        False,
        "pad every batch to one and the same shape, instead of one shape per length bucket",
        topic="pace",
        decides="stream",
    )
    max_buckets: int = option(
        "int",
        8,
        "most length buckets; each is a shape of its own, to be compiled once",
        topic="pace",
        minimum=1,
        maximum=64,
        decides="stream",
    )
    num_workers: int = option(
        "int",
        0,
        "threads that read files in each data process (0 = chosen from the number of cores)",
        topic="pace",
        minimum=0,
        maximum=1024,
    )
    cache: str = option(
        "str",
        "memory",
        "where finished features are kept for later epochs",
        topic="pace",
        choices=("off", "memory", "disk"),
    )
    cache_megabytes: int = option(
        "int",
        2048,
        "most space that the cache may take, in MB",
        topic="pace",
        value="MB",
        minimum=1,
    )
    val_fraction: float = option(
        "float",
        0.05,
        "share of the data to hold out for validation if there is no --val-data",
        topic="data",
        value="SHARE",
        minimum=0,
        maximum=0.5,
        decides="index",
    )
    max_bad_fraction: float = option(
        "float",
        0.05,
        "give up if more than this share of the examples can't be used",
        topic="data",
        value="SHARE",
        minimum=0,
        maximum=1,
        decides="look",
    )

    def __post_init__(self) -> None:
        check_section(self)
        if len(self.model_gpus) == 1:
            object.__setattr__(self, "model_gpu", self.model_gpus[0])
        if self.model_replicas and len(self.model_gpus) not in (0, self.model_replicas):
            raise ConfigError(
                f"model_replicas is {self.model_replicas}, but model_gpu names "
                f"{len(self.model_gpus)}. Give --model-replicas 0, which is one for each "
                "model GPU."
            )

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
        return self.model_replicas or max(1, len(self.model_gpus))


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """How the model is computed."""

    xla: str = option(
        "switch",
        "auto",
        "compile the training step with XLA; auto = on a GPU, what a trial finds to pay",
        topic="gpus",
        choices=("auto", "on", "off"),
    )
    precision: str = option(
        "str",
        "auto",
        "number format to compute in; auto = bfloat16 or float16 on a GPU that is made for it",
        topic="gpus",
        choices=("auto", "float32", "tf32", "bfloat16", "float16"),
    )

    def __post_init__(self) -> None:
        check_section(self)


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How long and how the model is trained."""

    epochs: int = option(
        "int",
        100,
        "passes over the training data (if neither --max-steps nor --max-minutes is given)",
        topic="budget",
        minimum=1,
    )
    max_steps: int = option(
        "int",
        0,
        "end after this many training steps (0 = no such limit)",
        topic="budget",
        minimum=0,
    )
    max_minutes: float = option(
        "float",
        0.0,
        "end after this many minutes, start-up included (0 = no such limit)",
        topic="budget",
        first=3,
        minimum=0,
    )
    minutes_share: float = option(
        "float",
        1.0,
        "share of --max-minutes that this run gets, if one command trains two models",
        topic="budget",
        value="SHARE",
        minimum=0.01,
        maximum=1,
    )
    init_from: str | None = option(
        "str",
        None,
        "run directory of a trained model to begin from (fine-tuning)",
        topic="model",
        first=10,
        value="RUN",
        is_path=True,
    )
    grad_accum: int = option(
        "int",
        0,
        "batches in a training step, over all model GPUs (0 = one for each GPU)",
        topic="learning",
        minimum=0,
        maximum=4096,
        decides="stream",
    )
    learning_rate: float = option(
        "float",
        0.0,
        "peak learning rate (0 = chosen by the task)",
        topic="learning",
        value="RATE",
        minimum=0,
        maximum=10,
    )
    warmup_steps: int = option(
        "int",
        0,
        "steps over which the learning rate rises to its peak (0 = chosen from the budget)",
        topic="learning",
        minimum=0,
    )
    optimizer: str = option(
        "str",
        "muon",
        "muon = Muon for the inner matrices and AdamW for the rest; adamw = AdamW for everything",
        topic="learning",
        choices=("muon", "adamw"),
        decides="model",
    )
    weight_decay: float = option(
        "float",
        0.01,
        "how strongly weights are pulled towards zero",
        topic="learning",
        value="X",
        minimum=0,
        maximum=10,
    )
    gradient_clip: float = option(
        "float",
        1.0,
        "gradients with a larger norm than this are scaled down to it",
        topic="learning",
        value="X",
        minimum=1e-6,
    )
    ema_decay: float = option(
        "float",
        0.0,
        "decay of the averaged weights, which validate and speak (0 = chosen from the budget)",
        topic="learning",
        value="X",
        minimum=0,
        maximum=0.999999,
    )
    validate_every: int = option(
        "int",
        500,
        "steps from one validation to the next (0 = only one, at the end)",
        topic="budget",
        minimum=0,
        decides="stream",
    )
    checkpoint_every: int = option(
        "int",
        500,
        "steps from one checkpoint to the next (0 = only one, at the end)",
        topic="saving",
        minimum=0,
    )
    on_save_error: str = option(
        "str",
        "continue",
        "what to do when a checkpoint can't be written",
        topic="saving",
        choices=("continue", "stop"),
    )
    keep_checkpoints: int = option(
        "int",
        3,
        "how many of the latest checkpoints to keep, besides the best one",
        topic="saving",
        minimum=1,
    )
    early_stopping: int = option(
        "int",
        0,
        "end after this many validations in a row that bring no improvement (0 = never)",
        topic="budget",
        minimum=0,
    )
    log_every: int = option(
        "int", 10, "steps from one line of metrics.jsonl to the next", topic="seeing", minimum=1
    )
    max_nonfinite_steps: int = option(
        "int",
        5,
        "steps in a row without a finite gradient before the run goes back to its last checkpoint",
        topic="learning",
        minimum=1,
    )
    seed: int = option(
        "int",
        1234,
        "seed of everything random",
        topic="learning",
        minimum=0,
        maximum=2**31 - 1,
        decides="stream",
    )
    deterministic: bool = option(
        "bool",
        False,
        "make two equal runs end in exactly the same weights, bit for bit",
        topic="learning",
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
        "directory of the run; the same one again continues the run [runs/DATE-TIME]",
        topic="saving",
        first=2,
        value="DIR",
        saved=False,
    )
    run_id: str | None = option(
        "str",
        None,
        "name by which the run's processes know each other [made up for each run]",
        topic="hosts",
        value="ID",
    )
    task: str = option(
        "str",
        TASK,
        "what to train: speech, vocoder, or a model of your own, FILE.py or FILE.py:NAME",
        topic="model",
        value="TASK",
        saved=False,
        in_files=False,  # a run directory, and what is in one, never names code to be run
    )
    accept_edited_task: bool = option(
        "bool",
        False,
        "continue although the task's file, or a library its features depend on, has changed",
        topic="saving",
        saved=False,
    )
    fake_gpus: int = option(
        "int",
        0,
        "pretend to have this many GPUs, each a share of the CPU",
        topic="gpus",
        minimum=0,
        maximum=64,
    )
    engine: str = option(
        "str",
        "local",
        "who starts the processes: this machine alone, or Ray on the hosts of a cluster",
        topic="hosts",
        choices=("local", "ray"),
        saved=False,
    )
    ray_address: str = option(
        "str",
        "auto",
        "HOST:PORT of the Ray cluster (auto: the one that this host belongs to)",
        topic="hosts",
        value="ADDRESS",
        saved=False,
    )
    trusted_network: bool = option(
        "bool",
        False,
        "use a Ray cluster beyond this machine although it asks nobody for a token",
        topic="hosts",
        saved=False,
    )
    data_workers: int = option(
        "int",
        1,
        "data processes on each data GPU, or on the CPU",
        topic="pace",
        minimum=1,
        maximum=1024,
    )
    spare_data_worker: bool = option(
        "bool",
        False,
        "keep a second data process ready on each data GPU, to take over if the first one dies",
        topic="saving",
    )
    max_restarts: int = option(
        "int",
        10,
        "how often a process may be restarted within ten minutes before the run gives up",
        topic="saving",
        minimum=0,
    )
    endpoint: str | None = option(
        "str",
        None,
        "where batches are sent: ipc://PATH or tcp://127.0.0.1:PORT [a private socket file]",
        topic="hosts",
        value="ADDRESS",
    )
    keys: str | None = option(
        "str",
        None,
        "folder with keys made by the keys command; needed for addresses beyond this machine",
        topic="hosts",
        value="DIR",
        is_path=True,
    )
    samples: int = option(
        "int",
        2,
        "held-out examples to show at each validation",
        topic="seeing",
        minimum=0,
        maximum=16,
    )
    report: bool = option("bool", True, "write report.html when the run ends", topic="seeing")
    on_event: str | None = option(
        "str",
        None,
        "command that gets every event as a line of JSON on its standard input",
        topic="seeing",
        value="COMMAND",
        saved=False,
        in_files=False,  # the same
    )
    audit: bool = option(
        "bool", False, "write every trained batch down in audit.jsonl", topic="seeing"
    )
    live: bool = option(
        "bool", True, "show the live view on a terminal", topic="seeing", saved=False
    )
    fresh: bool = option(
        "bool",
        False,
        "start over, even if the run directory has a checkpoint",
        topic="saving",
        saved=False,
    )
    prepare_only: bool = option(
        "bool",
        False,
        "look at the data, write the run directory, and stop there",
        topic="data",
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
            by_number = bool(self.data.model_replicas)
            what = "model processes" if by_number else "model GPUs"
            flag = "--model-replicas" if by_number else "--model-gpu"
            raise ConfigError(
                f"grad_accum is {grad_accum}, which {num_replicas} {what} can't share evenly. "
                f"Name {' or '.join(map(str, fitting))} with {flag}, or give a new run a "
                f"--grad-accum of {num_replicas} or {2 * num_replicas}."
            )


SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "task": TaskConfig,
    "model": ModelConfig,
    "training": TrainingConfig,
    "run": RunConfig,
}
