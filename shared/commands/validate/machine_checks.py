"""The five checks of `validate`, each a function that returns what it saw or raises CheckFailed."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import sys
import time
from pathlib import Path

from shared.commands.demo_corpus import make_demo_corpus
from shared.commands.validate.check_children import CheckChildren
from shared.config.installation import GPU_LOCK, LOCK, PROGRAM, how_to_install, pip_install
from shared.config.settings import Config, DataConfig, RunConfig, TaskConfig, TrainingConfig
from shared.config.toml_file import write_config
from shared.devices.device_facts import Misplaced, misplaced, not_apart
from shared.devices.gpus import Gpu, Placement, choose_gpus
from shared.devices.nvml import driver_here
from shared.devices.tensorflow_build import in_words
from shared.errors import GpuError, TandemError, Trouble
from shared.launching.preparation_child import prepare_run
from shared.launching.training_run import TrainingRun
from shared.run.directory import RunDirectory
from shared.worker.beside_cpu import wrong
from shared.worker.contract import EXIT_INTERRUPTED
from shared.worker.reports import (
    Arrived,
    Compared,
    Device,
    Forward,
    LineKind,
    Metrics,
    Report,
    Sent,
)

_NUM_STEPS = 3
_AS_THE_CPU = "numbers as the CPU computes them"
_TRY_FAKE = f"To try everything without GPUs: {PROGRAM} validate --fake-gpus 2"


class CheckFailed(TandemError):
    """A check did not pass; `remedy` says what to do."""

    def __init__(self, found: str, remedy: str):
        super().__init__(found)
        self.remedy = remedy


def prerequisites(gpus: list[Gpu]) -> list[str]:
    """1: a driver, TensorFlow, and two GPUs that can be seen."""
    try:
        tensorflow = importlib.metadata.version("tensorflow")
    except importlib.metadata.PackageNotFoundError:
        raise CheckFailed(
            "TensorFlow is not installed here.",
            f"{how_to_install(sys.executable)} For GPUs also run {pip_install(GPU_LOCK)}",
        ) from None
    if len(gpus) < 2:
        driver = driver_here()
        found = f"driver {driver.version}" if driver else "no NVIDIA driver answers"
        found = "a fake one" if gpus and gpus[0].fake else found
        number = "no GPU was" if not gpus else "only 1 GPU was"
        single = (
            "One GPU trains too, without --data-gpu and --model-gpu."
            if gpus
            else (
                "Check that 'nvidia-smi' lists your GPUs and that CUDA_VISIBLE_DEVICES does not hide "
                "them."
            )
        )
        raise CheckFailed(f"{number} found ({found}); two are needed.", f"{single} {_TRY_FAKE}")
    saw = [f"TensorFlow {tensorflow}"]
    if not gpus[0].fake and (driver := driver_here()):
        serves = f", which serves CUDA {in_words(driver.cuda)}" if driver.cuda else ""
        saw.append(f"driver {driver.version}{serves}")
    return [*saw, *(f"GPU {gpu.index}: {_in_words(gpu)}" for gpu in gpus)]


def _in_words(gpu: Gpu) -> str:
    if gpu.problem:
        return f"can't be used: {gpu.problem}"
    memory = f", {gpu.memory_mb / 1024:.0f} GB" if gpu.memory_mb else ""
    capability = f", compute capability {in_words(gpu.capability)}" if gpu.capability else ""
    return f"{gpu.name}{memory}{capability}"


def placed(data_gpu: int, model_gpu: int, gpus: list[Gpu]) -> Placement:
    """The first half of 2: the indices."""
    try:
        return choose_gpus(DataConfig(data_gpu=data_gpu, model_gpu=model_gpu), gpus)
    except GpuError as error:
        indices = ", ".join(str(gpu.index) for gpu in gpus)
        raise CheckFailed(
            str(error),
            f"The GPUs here are {indices}. Name two different ones, such as --data-gpu "
            f"{gpus[0].index} --model-gpu {gpus[1].index}.",
        ) from None


def prepared_run(
    folder: Path, placement: Placement, num_fake_gpus: int
) -> tuple[RunDirectory, Config]:
    """A tiny corpus, spoken here, and a prepared run of three steps on it."""
    try:
        corpus = make_demo_corpus(folder, num_examples=32, num_groups=2)
    except TandemError as error:
        raise CheckFailed(
            str(error), "Free space in TMPDIR, or run 'make -B setup' if espeak-ng is named."
        ) from None
    assert placement.model_gpu is not None  # both were named
    config = Config(
        data=DataConfig(
            train_data=str(corpus),
            batch_size=4,
            val_fraction=0.0,
            model_start_delay=0.0,
            data_gpu=placement.data_gpus[0].index,
            model_gpu=placement.model_gpu.index,
            enable_static_shapes=True,
        ),
        task=TaskConfig(model_size="tiny"),
        training=TrainingConfig(max_steps=_NUM_STEPS, validate_every=0, log_every=1),
        run=RunConfig(
            run_dir=str(folder / "run"),
            run_id=f"validate-{folder.name}",
            fake_gpus=num_fake_gpus,
            audit=True,
            max_restarts=0,
        ),
    )
    run = RunDirectory(folder / "run")
    run.create()
    write_config(config, run.config)
    prepare_run(run, lambda text: None)
    return run, config


def placement_of(children: CheckChildren, gpus: dict[str, Gpu]) -> list[str]:
    """The second half of 2: each process sees exactly its GPU, and takes memory as it needs it."""
    facts = {}
    for role in ("data", "model"):
        facts[role] = children.wait_for(role, Device).facts
    complaint = (
        misplaced("data", gpus["data"], facts["data"])
        or misplaced("model", gpus["model"], facts["model"])
        or not_apart(facts["data"], facts["model"])
    )
    if complaint:
        raise CheckFailed(f"{complaint.words}.", _REMEDY_OF[complaint.kind])
    return [
        f"{role} process: {gpus[role].name}, physical GPU {gpus[role].physical_index} → /GPU:0"
        for role in ("data", "model")
    ]


_REMEDY_OF = {
    Misplaced.MEMORY: "Unset TF_FORCE_GPU_ALLOW_GROWTH, and install the TensorFlow that this was "
    f"tried with: {pip_install(LOCK)}",
    Misplaced.CORES: "Let this shell use more cores (taskset, or the container's settings), or go "
    "on without it.",
    Misplaced.GPUS: "Unset CUDA_VISIBLE_DEVICES, and install TensorFlow with GPU support: "
    f"{pip_install(GPU_LOCK)}",
}


def forward_pass(children: CheckChildren, gpu: Gpu) -> list[str]:
    """3: the model is built, and computes on its GPU."""
    facts = children.wait_for("model", Forward)
    _check_device("the model", facts.device, gpu)
    if not facts.finite:
        raise CheckFailed(
            "the forward pass gave numbers that are not finite.",
            "Update the GPU's driver; if it persists, the GPU may be faulty.",
        )
    _check_numbers("model", children.wait_for("model", Compared), gpu)
    size, build_s = facts.num_parameters / 1e6, facts.build_ms / 1000
    forward_s = facts.forward_ms / 1000
    passed = f"built in {build_s:.1f} s, forward pass in {forward_s:.1f} s"
    return [f"{size:.1f} million parameters {passed}", _AS_THE_CPU]


def transfer(children: CheckChildren, gpus: dict[str, Gpu]) -> list[str]:
    """4: arrays made on the data GPU arrive on the model GPU intact."""
    sent = children.wait_for("data", Sent)
    arrived = children.wait_for("model", Arrived)
    _check_device("what the data process made", sent.device, gpus["data"])
    _check_device("what arrived", arrived.device, gpus["model"])
    if sent.sha256 != arrived.sha256:
        raise CheckFailed(
            "the arrays that arrived are not those that were sent.",
            "Test the memory of this machine and of its GPUs.",
        )
    compared = children.wait_for("data", Compared)
    _check_numbers("data", compared, gpus["data"])
    return [f"{arrived.num_bytes / 1e6:.1f} MB, the same to the last bit", _AS_THE_CPU]


def _check_numbers(role: str, compared: Compared, gpu: Gpu) -> None:
    """Whether a device computes what the CPU does: one that does nothing fails at nothing else."""
    if found := wrong(compared.deviations):
        raise CheckFailed(
            f"the {role} process computes something else on {gpu.name}: {found}.",
            "Update the NVIDIA driver and restart the machine; if it persists, the GPU may be faulty.",
        )


def _check_device(what: str, device: str, gpu: Gpu) -> None:
    if not gpu.fake and "GPU:0" not in device:
        raise CheckFailed(
            f"{what} is on {device or 'no device'}, not on GPU {gpu.index}.",
            f"Install TensorFlow with GPU support: {pip_install(GPU_LOCK)}",
        )


def pipeline(run: RunDirectory, config: Config, placement: Placement) -> list[str]:
    """5: three batches through the whole pipeline, by a real run."""
    losses: dict[int, float] = {}

    def take(worker: str, report: Report) -> None:
        if isinstance(report, Metrics) and isinstance(report.record.get("loss"), float):
            losses[int(report.record["step"])] = report.record["loss"]

    def say_nothing(text: str, kind: LineKind = LineKind.STORY) -> None:
        """A check says what it saw, not how."""

    result = TrainingRun(config, run, placement, say_nothing, time.time(), take).watch()
    if result.exit_code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    remedy = f"Train on the CPU to see whether it is the GPU's fault; the logs are in {run.path}."
    if result.exit_code:
        raise CheckFailed(result.cause, _REMEDIES[result.trouble])
    trained = [json.loads(line)["batch_index"] for line in run.audit.read_text().splitlines()]
    if trained != list(range(_NUM_STEPS)):
        raise CheckFailed(f"batches {trained} were trained instead of 0, 1 and 2.", remedy)
    if len(losses) < _NUM_STEPS:
        raise CheckFailed(f"only {len(losses)} of {_NUM_STEPS} steps had a finite loss.", remedy)
    if not all(loss > 0 for loss in losses.values()):
        raise CheckFailed("a step had a loss of zero: nothing was computed.", remedy)
    shown = ", ".join(f"{losses[step]:.2f}" for step in sorted(losses))
    return [f"{_NUM_STEPS} batches trained in order, loss {shown}"]


# What to try first when a process of a check has failed.
_REMEDIES = {
    Trouble.KILLED: "The system ended it, usually because memory ran out: close other programs, and "
    "look at 'dmesg' for the out-of-memory killer.",
    Trouble.SILENCE: "Look with 'nvidia-smi' whether other jobs fill the GPU or the driver does "
    "not answer; then try again.",
    Trouble.MEMORY: "Free the GPU's memory: 'nvidia-smi' lists the programs that hold it.",
    Trouble.DEVICE: "Update the NVIDIA driver, and install TensorFlow with GPU support: "
    f"{pip_install(GPU_LOCK)}",
    Trouble.OTHER: "The log of the process, in the folder below, says where it stood; then try "
    "again.",
}


def as_failed_check(error: TandemError) -> CheckFailed:
    """Any expected error as a failed check."""
    if isinstance(error, CheckFailed):
        return error
    return CheckFailed(str(error), _REMEDIES[error.trouble])


@dataclasses.dataclass
class Stopwatch:
    """Seconds since the last time it was asked."""

    since_s: float = dataclasses.field(default_factory=time.monotonic)

    def lap(self) -> float:
        now_s = time.monotonic()
        passed_s, self.since_s = now_s - self.since_s, now_s
        return passed_s
