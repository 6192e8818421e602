"""How a worker's end is told: what the launcher hears on its pipe, and the exit status."""

import os

import pytest
from played_gpus import GEFORCE, UUIDS, Machine, compiled

from shared.config.settings import Config, RunConfig
from shared.errors import GpuError, InputError, TandemError, Trouble
from shared.worker.contract import PIPE_VARIABLE
from shared.worker.reports import Cause, Failure, decode
from shared.worker.start import _own_log, failure_in_words, fix_gpu, run_worker, worker_parser


class ResourceExhaustedError(Exception):
    """By its name TensorFlow's, which is not imported here."""


@pytest.fixture
def ended(monkeypatch):
    """Has a worker's work end as a test says; returns its exit status and what it told."""

    def end(work):
        reading, writing = os.pipe()
        monkeypatch.setenv(PIPE_VARIABLE, str(writing))
        try:
            status = run_worker(work)
        finally:
            os.close(writing)
        with os.fdopen(reading) as pipe:
            told = [decode(line) for line in pipe]
        return status, told

    return end


def raising(error):
    def work(reporter):
        raise error

    return work


def test_a_worker_that_does_its_work_tells_nothing(ended):
    assert ended(lambda reporter: 130) == (130, [])


@pytest.mark.parametrize(
    ("error", "status"), [(InputError("no such run"), 2), (TandemError("x"), 1)]
)
def test_an_expected_error_is_the_runs_failure_and_a_sentence(ended, capsys, error, status):
    assert ended(raising(error)) == (status, [Failure(str(error), error.trouble)])
    assert capsys.readouterr().err == f"❌ {error}\n"


@pytest.mark.parametrize(
    ("error", "words", "will_pass"),
    [
        (OSError(5, "Input/output error"), "OSError: [Errno 5] Input/output error", True),
        (TimeoutError("the storage is away"), "TimeoutError: the storage is away", True),
        (ValueError("\n  shapes differ  \nand more"), "ValueError: shapes differ", False),
        (AssertionError(), "AssertionError", False),
        (RuntimeError("x" * 5000), f"RuntimeError: {'x' * 200}", False),
    ],
)
def test_an_unexpected_one_is_a_cause_that_only_storage_may_pass(
    ended, caplog, error, words, will_pass
):
    status, (cause,) = ended(raising(error))
    assert status == 1 and isinstance(cause, Cause) and cause.will_pass is will_pass
    assert cause.message.startswith(f"{words} (")
    assert cause.message.endswith(" says where)")
    assert caplog.records[-1].exc_info[1] is error  # the log has the traceback


STACK = (
    "Graph execution error:\n\nDetected at node add defined at (most recent call last):\n"
    '  File "model_worker/speech/network/layers.py", line 14, in call\n\n'
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{{function_node __wrapped__AddV2_device_/device:CPU:0}} Incompatible shapes: [2] vs. [3] "
         "[Op:AddV2] name: ", "Incompatible shapes: [2] vs. [3]"),
        (STACK + "Incompatible shapes: [2] vs. [3]\n\t [[{{node add}}]] [Op:__inference_h_21]",
         "Incompatible shapes: [2] vs. [3]"),
        ("in user code:\n\n    File \"a.py\", line 3, in f  *\n        return g(x)\n\n"
         "    RuntimeError: Dimensions must be equal\n", "Dimensions must be equal"),
        ("Graph execution error:\n\nDetected at node add defined at (most recent call last):\n"
         "<stack traces unavailable>\nNode: 'add'\nNot finite.", "Not finite."),
    ],
)  # fmt: skip
def test_the_line_that_says_something_is_told(text, line):
    assert failure_in_words(RuntimeError(text)).startswith(f"RuntimeError: {line} (")


def test_a_message_that_says_nothing_leaves_the_name_of_the_error():
    assert failure_in_words(RuntimeError(STACK)).startswith("RuntimeError (")


def test_the_log_is_named_where_the_output_goes_into_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open("model_worker.log", "ab") as log, open("gone.log", "ab") as gone:
        assert _own_log(log.fileno()) == "model_worker.log"
        os.unlink("gone.log")
        assert _own_log(gone.fileno()) == "its log"
    reading, writing = os.pipe()
    assert _own_log(writing) == "its log"
    os.close(reading)
    os.close(writing)
    assert _own_log(writing) == "its log"


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        (0, "Invalid data_gpu=7, but there is no GPU. Give --gpu an index of nvidia-smi, or "
         "prepare the run without --data-gpu and --model-gpu (--fake-gpus 2 to try)."),
        (2, "Invalid data_gpu=7, must be 0-1. Give --gpu an index of nvidia-smi."),
    ],
)  # fmt: skip
def test_a_gpu_that_is_not_there_is_refused_with_a_remedy(monkeypatch, gpus, said):
    monkeypatch.delenv("TANDEM_ROLE", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # no real one
    flags = worker_parser("data_worker", "--connect").parse_all(["--run", "r", "--gpu", "7"])
    with pytest.raises(GpuError) as caught:
        fix_gpu("data", flags, Config(run=RunConfig(fake_gpus=gpus)))
    assert str(caught.value) == said


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ResourceExhaustedError("OOM when allocating"),
        RuntimeError("failed to allocate 2.00GiB: CUDA_ERROR_OUT_OF_MEMORY"),
        RuntimeError(STACK + "CUDNN: Out of memory"),
    ],
)
def test_too_little_memory_names_what_needs_less(ended, error):
    status, (cause,) = ended(raising(error))
    assert status == 1 and cause.will_pass is False and cause.trouble is Trouble.MEMORY
    assert cause.message.startswith("out of memory.")
    for flag in ("--batch-size", "--grad-accum", "--model-size", "--max-seconds"):
        assert flag in cause.message


def test_a_gpu_that_is_gone_ends_the_run_in_the_drivers_words(tmp_path):
    machine = Machine(compiled(tmp_path))
    program = f"""
import json, os, pathlib
from shared.worker.contract import PIPE_VARIABLE
from shared.worker.start import run_worker
reading, writing = os.pipe()
os.environ[PIPE_VARIABLE] = str(writing)
def work(reporter):
    pathlib.Path({str(tmp_path / "lost")!r}).touch()
    raise RuntimeError("CUDA error: Failed to launch: CUDA_ERROR_UNKNOWN: unknown error")
status = run_worker(work)
os.close(writing)
print(json.dumps([status, json.loads(os.read(reading, 65536))]))
"""
    lost = f"{GEFORCE},lost_if={tmp_path / 'lost'}"
    status, told = machine.python(program, gpus=lost, visible=UUIDS[0])
    assert status == 1 and told["kind"] == "failure" and told["trouble"] == "device"
    assert told["message"].startswith(
        f"its GPU ({UUIDS[0]}) failed, and the driver says of it: GPU is"
    )
    assert "the same command goes on from the last checkpoint" in told["message"]
    status, told = machine.python(program, gpus=GEFORCE, visible=UUIDS[0])
    assert status == 1 and told["kind"] == "cause"
