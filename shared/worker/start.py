"""What both workers do before anything else: flags, GPU, memory growth, threads, logging."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import signal
import stat
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from shared.config.flags import PlainParser
from shared.config.installation import PROGRAM
from shared.config.settings import Config
from shared.config.toml_file import load_config
from shared.devices.cores import BusyMeter, num_cores, pin_to_share
from shared.devices.gpus import check_usable, first_usable, list_gpus, worker_environment
from shared.devices.nvml import GpuMeter
from shared.errors import GpuError, InputError, TandemError, TaskError, Trouble
from shared.run.directory import RunDirectory
from shared.run.task_identity import check_same_task
from shared.task.registry import DEFAULT, Task
from shared.task.users_file import users_words
from shared.worker.contract import EXIT_INTERRUPTED, ROLE_VARIABLE
from shared.worker.process_guard import guard_worker
from shared.worker.reports import Cause, Failure, Reporter
from shared.worker.unseen_gpu import why_no_gpu
from shared.worker.want_of_memory import NEEDS_LESS, BatchTooLarge, is_want_of_memory

log = logging.getLogger(__name__)


def worker_parser(program: str, endpoint_flag: str) -> PlainParser:
    """The flags of a worker, the same whether the launcher or a person starts it."""
    parser = PlainParser(prog=program, description="One side of a run, from its run directory.")
    parser.add_argument("--run", required=True, metavar="DIR", help="a prepared run directory")
    parser.add_argument("--gpu", type=int, metavar="N", help="GPU to use (default: as configured)")
    parser.add_argument("--name", help="name in logs and messages")
    parser.add_argument(
        "--task", default=DEFAULT, help=f"the task that the run was begun with [{DEFAULT}]"
    )
    parser.add_argument(
        endpoint_flag,
        dest="endpoint",
        metavar="ENDPOINT",
        help="ipc:///PATH or tcp://127.0.0.1:PORT (default: the run's own)",
    )
    parser.add_argument(
        "--keys",
        metavar="PATH",
        help=f"key file, or folder of '{PROGRAM} keys', "
        "for tcp://HOST:PORT (default: as configured)",
    )
    return parser


_PREPARE = f"Make one with '{PROGRAM} --train-data DIR --run-dir RUN --prepare-only'."


def open_run(flags: argparse.Namespace, remedy: str = _PREPARE) -> tuple[RunDirectory, Config]:
    """The run directory and its configuration.

    Raises:
        InputError: it was not prepared, or trains another task.
    """
    run = RunDirectory(flags.run)
    if not run.config.is_file() or not run.index.is_file():
        raise InputError(f"{flags.run}: holds no run whose data was looked at. {remedy}")
    task = getattr(flags, "task", DEFAULT)  # the commands of the default task have no such flag
    check_same_task(run, Task.of(task))
    return run, load_config(run.config, task)


def fix_gpu(role: str, flags: argparse.Namespace, config: Config) -> str:
    """Settle this process's GPU before TensorFlow is imported; returns cpu, gpu or fake.

    A worker that the launcher started already has its environment. One started by hand makes its
    own, from --gpu or the run's configuration.
    """
    started_by_launcher = ROLE_VARIABLE in os.environ
    configured = config.data.data_gpus if role == "data" else config.data.model_gpus
    wanted = flags.gpu
    if wanted is None and configured:
        wanted = configured[getattr(flags, "replica", 0)]
    if not started_by_launcher:
        gpus = list_gpus(config.run.fake_gpus)
        if wanted is not None and not 0 <= wanted < len(gpus):
            found = f"must be 0-{len(gpus) - 1}" if gpus else "but there is no GPU"
            remedy = "Give --gpu an index of nvidia-smi"
            if not gpus:
                remedy += (
                    ", or prepare the run without --data-gpu and --model-gpu (--fake-gpus 2 to try)"
                )
            raise GpuError(f"Invalid {role}_gpu={wanted}, {found}. {remedy}.")
        gpu = None if wanted is None else gpus[wanted]
        if gpu is None and role == "model" and (gpu := first_usable(gpus)):
            wanted = gpu.index
        if gpu is not None:
            check_usable(gpu)
        os.environ.update(worker_environment(gpu))
    if config.run.fake_gpus:
        pin_to_share(role)
        return "fake" if wanted is not None else "cpu"
    return "gpu" if os.environ["CUDA_VISIBLE_DEVICES"] or wanted is not None else "cpu"


def start_tensorflow(role: str, device_kind: str, config: Config) -> ModuleType:
    """Import TensorFlow on exactly this worker's device and return the module.

    Raises:
        GpuError: in multi-GPU mode, not exactly one GPU is visible.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    if config.training.deterministic:
        os.environ["TF_DETERMINISTIC_OPS"] = "1"
    tf = _import_tensorflow(role)
    threads = num_cores()
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1 if threads == 1 else 2)
    if device_kind == "fake":
        tf.config.set_visible_devices([], "GPU")
    elif device_kind == "gpu":
        _set_up_gpu(tf, role, config)
    return tf


def _import_tensorflow(role: str) -> ModuleType:
    """TensorFlow without what it would import and this process has no use for.

    It imports Keras, and Keras scikit-learn (which is here for librosa) with all of its statistics,
    whether anyone uses them or not: a third of the start of a data process.
    """
    unused = ("keras", "sklearn") if role == "data" else ("sklearn",)
    absent: dict[str, Any] = {name: None for name in unused if name not in sys.modules}
    sys.modules.update(absent)  # "not to be found", until it is taken back
    try:
        import tensorflow as tf
    finally:
        for name in absent:
            del sys.modules[name]
    return tf


def _set_up_gpu(tf: ModuleType, role: str, config: Config) -> None:
    found = tf.config.list_physical_devices("GPU")
    if len(found) != 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        why = f"CUDA_VISIBLE_DEVICES is {visible!r}" if found else why_no_gpu(visible)
        raise GpuError(
            f"the {role} process must see exactly one GPU, but TensorFlow sees {len(found)}: {why}."
        )
    if cap_mb := _memory_cap_mb(role, config):
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=cap_mb)
        tf.config.set_logical_device_configuration(found[0], [limit])
    else:
        tf.config.experimental.set_memory_growth(found[0], True)


def _memory_cap_mb(role: str, config: Config) -> int:
    """How much of its GPU's memory this worker may take; 0: what it needs."""
    return config.data.data_gpu_memory if role == "data" else config.data.model_gpu_memory


def say_memory(role: str, device_kind: str, config: Config, reporter: Reporter) -> None:
    """How this worker takes memory of its GPU; a fake one has none."""
    cap_mb = _memory_cap_mb(role, config)
    if device_kind == "gpu" and cap_mb:
        reporter.say(f"   Capped the memory of the {role} GPU at {cap_mb} MB")
    elif device_kind == "gpu":
        reporter.say(f"   Configured memory growth for {role} GPU")


def busy_meter(device_kind: str) -> BusyMeter:
    """How busy this worker's device is: a GPU by NVML, a share of the cores by their clock."""
    if device_kind == "gpu":
        gpu = GpuMeter(os.environ["CUDA_VISIBLE_DEVICES"])
        return BusyMeter(gpu.share, memory_mb=gpu.memory_mb)
    return BusyMeter()


def begin_worker() -> None:
    """First lines of a worker: guards, and a log that says when and what."""
    guard_worker()
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stdout,
    )


def own_fault(error: Exception) -> str | None:
    """What a user's task did wrong, in a sentence with its line; None where it was something else.

    Memory that ran out in it is the engine's to tell: what helps is no change of the code.
    """
    return None if is_want_of_memory(error) else users_words(error)


def run_worker(work: Callable[[Reporter], int], if_out_of_memory: str = NEEDS_LESS) -> int:
    """Do a worker's work; returns its exit status. The launcher is told why, where it failed."""
    reporter = Reporter.from_environment()
    try:
        return work(reporter)
    except TandemError as error:
        reporter.tell(Failure(str(error), error.trouble))
        print(f"❌ {error}", file=sys.stderr)
        return error.exit_code
    except Exception as error:
        log.exception("this process can't go on")
        if in_users_words := own_fault(error):
            reporter.tell(Failure(in_users_words, Trouble.OTHER))
            print(f"❌ {in_users_words}", file=sys.stderr)
            return TaskError.exit_code
        words, trouble = failure_in_words(error), _trouble_of(error)
        if trouble is Trouble.DEVICE and (gone := _gpu_that_is_gone()):
            reporter.tell(Failure(gone, trouble))
            print(f"❌ {gone}", file=sys.stderr)
            return GpuError.exit_code
        # Storage may answer again; the same batch and the same code fail again.
        if trouble is Trouble.MEMORY and not isinstance(error, BatchTooLarge) and if_out_of_memory:
            words += f". {if_out_of_memory}"
        reporter.tell(Cause(words, will_pass=isinstance(error, OSError), trouble=trouble))
        return 1


def _gpu_that_is_gone() -> str:
    """Why this process's GPU will not come back by itself; empty if its driver still answers for it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if not visible or not (problem := GpuMeter(visible).problem()):
        return ""
    return (
        f"its GPU ({visible}) failed, and the driver says of it: {problem}. Restart the machine, or "
        "leave that GPU out; the same command goes on from the last checkpoint"
    )


_STANDARD_OUTPUT = 1  # of a worker that the launcher started: its log
_WORDS_OF_DEVICES = ("CUDA", "cuDNN", "GPU", "driver")
# Of a stack that TensorFlow puts into its message: one frame, with the source below it if any.
_FRAME = re.compile(r'^([ \t]*)File ".*(?:\n\1[ \t]+\S.*)*', re.MULTILINE)
_NODES = re.compile(r"\[\[\{\{.*?\]\]|\{\{.*?\}\}|\[Op:[^\]]*\](?: name:.*)?")
# TensorFlow's words, in some of its operations with others around them.
_REFUSED = re.compile(
    r"(?:[Dd]eterministic GPU implementation of|Determinism is not yet supported (?:in GPU "
    r"implementation of|for)|GPU implementation of) ([\w -]+?)(?:,|\.| is | not | op | that | when )"
)
_SAYS_NOTHING = (
    "Graph execution error", "Detected at node", "Node:", "in user code", "Traceback (",
    "<stack traces",
)  # fmt: skip


def _trouble_of(error: Exception) -> Trouble:
    """What sort of thing a failure is about; of TensorFlow's errors only the words tell."""
    if is_want_of_memory(error):
        return Trouble.MEMORY
    if any(word in str(error) for word in _WORDS_OF_DEVICES):
        return Trouble.DEVICE
    return Trouble.OTHER


def failure_in_words(error: Exception) -> str:
    """An unexpected failure in a line: the first of its message that says something."""
    if isinstance(error, BatchTooLarge):
        return str(error)
    if is_want_of_memory(error):
        return "out of memory"
    if refused := _REFUSED.search(str(error)):
        return (
            f"{refused[1]} has no deterministic way on a GPU, so TensorFlow refuses it with "
            "--deterministic. Leave that out, or the operation"
        )
    kind, text = type(error).__name__, str(error)
    lines = [line.strip() for line in _NODES.sub("", _FRAME.sub("", text)).splitlines()]
    lines = [line for line in lines if line and not line.startswith(_SAYS_NOTHING)]
    words = f"{kind}: {lines[0].removeprefix(f'{kind}: ')[:200]}" if lines else kind
    return f"{words} ({_own_log(_STANDARD_OUTPUT)} says where)"


def _own_log(descriptor: int) -> str:
    """The file that what is written there goes into, as short as it can be named."""
    try:
        found, path = os.fstat(descriptor), os.readlink(f"/proc/self/fd/{descriptor}")
        if stat.S_ISREG(found.st_mode) and os.path.samestat(found, os.stat(path)):
            return min(path, os.path.relpath(path), key=len)
    except OSError:
        pass  # closed, or the file is gone
    return "its log"


class StopFlag:
    """Set by the signals that ask a worker to finish what it is doing and end.

    A worker that is `starting` has nothing to finish: a signal ends it at once, until it calls
    `now_at_work`, and again from `now_starting` on. Importing TensorFlow and compiling can take
    longer than a stop may.
    """

    def __init__(self, starting: bool = False) -> None:
        self.asked_s: float | None = None
        self._starting = starting
        self.before_exit: Callable[[], None] = lambda: None  # what ends at once may note first
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            signal.signal(number, self._note)

    def now_at_work(self) -> None:
        """From now on there is something to finish first."""
        self._starting = False

    def now_starting(self) -> None:
        """From now on there is nothing to finish, nor for a signal that has come already."""
        self._starting = True
        if self.asked_s is not None:
            self._exit()

    def _exit(self) -> None:
        with contextlib.suppress(Exception):
            self.before_exit()
        os._exit(EXIT_INTERRUPTED)

    def _note(self, number: int, frame: object) -> None:
        if self._starting:
            self._exit()
        self.asked_s = self.asked_s or time.monotonic()

    def __call__(self) -> bool:
        return self.asked_s is not None
