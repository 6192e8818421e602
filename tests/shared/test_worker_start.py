"""How a worker's end is told: what the launcher hears on its pipe, and the exit status."""

import json
import os

import pytest

from shared.errors import InputError, TandemError
from shared.reporting import PIPE_VARIABLE
from shared.worker_start import run_worker


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
            told = [json.loads(line) for line in pipe]
        for report in told:
            del report["time"]
        return status, told

    return end


def raising(error):
    def work(reporter):
        raise error

    return work


def test_a_worker_that_does_its_work_tells_nothing(ended):
    assert ended(lambda reporter: 130) == (130, [])


@pytest.mark.parametrize(("error", "status"), [(InputError("no such run"), 2), (TandemError("x"), 1)])
def test_an_expected_error_is_the_runs_failure_and_a_sentence(ended, capsys, error, status):
    assert ended(raising(error)) == (status, [{"kind": "failure", "message": str(error)}])
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
    cause = {
        "kind": "cause", "message": f"{words} (its log says where)", "will_pass": will_pass,
    }  # fmt: skip
    assert ended(raising(error)) == (1, [cause])
    assert caplog.records[-1].exc_info[1] is error  # the log has the traceback


@pytest.mark.parametrize("error", [MemoryError(), ResourceExhaustedError("OOM when allocating")])
def test_too_little_memory_names_what_needs_less(ended, error):
    status, (cause,) = ended(raising(error))
    assert status == 1 and cause["will_pass"] is False
    assert cause["message"].startswith("out of memory.")
    for flag in ("--batch-size", "--grad-accum", "--model-size", "--max-seconds"):
        assert flag in cause["message"]
