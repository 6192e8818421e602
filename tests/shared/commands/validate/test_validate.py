"""`validate`: its flags, and what it says to a program. Its real checks are in tests/processes."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shared.commands.validate import machine_checks
from shared.commands.validate.command import TITLES, _run_checks, validate_parser
from shared.commands.validate.machine_checks import CheckFailed
from shared.devices.device_facts import DeviceFacts, Misplaced, misplaced, not_apart
from shared.devices.gpus import Gpu, list_gpus
from shared.errors import ConfigError, TandemError, Trouble
from shared.worker.reports import Compared

ROOT = Path(__file__).resolve().parents[4]


def failing():
    raise CheckFailed("it is on the CPU.", "Install the driver.")


def test_what_each_check_saw_is_noted():
    results = _run_checks(iter_of(*(lambda n=n: [f"saw {n}"] for n in range(len(TITLES)))))
    assert [result["name"] for result in results] == list(TITLES)
    assert [result["saw"] for result in results] == [[f"saw {n}"] for n in range(len(TITLES))]
    for result in results:
        assert result["passed"] and result["seconds"] >= 0
        assert result["problem"] is None and result["remedy"] is None


def test_the_first_that_fails_is_the_last_that_is_run(capsys):
    results = _run_checks(iter_of(lambda: ["a driver"], failing, lambda: pytest.fail("it was run")))
    assert [result["passed"] for result in results] == [True, False]
    assert results[1]["problem"] == "it is on the CPU."
    assert results[1]["remedy"] == "Install the driver."
    assert "❌ 1 of 5 checks passed; the others were not run." in capsys.readouterr().out


def iter_of(*checks):
    yield from checks


@pytest.mark.parametrize(
    ("arguments", "names", "problem"),
    [
        (["--fake-gpus", "1"], TITLES[:1], "only 1 GPU was found (a fake one); two are needed."),
        (["--fake-gpus", "3", "--data-gpu", "7,1", "--model-gpu", "2"], TITLES[:2],
         "Invalid data_gpu=7, must be 0-2"),
    ],
)  # fmt: skip
def test_a_program_gets_one_json_object_and_nothing_else(tmp_path, arguments, names, problem):
    done = subprocess.run(
        [sys.executable, "launcher.py", "validate", "--json", *arguments], cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "❌" in done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"passed", "checks", "logs"}
    assert found["passed"] is False and found["logs"] is None
    assert [check["name"] for check in found["checks"]] == list(names)
    assert set(found["checks"][-1]) == {
        "name", "data_gpu", "passed", "seconds", "saw", "problem", "remedy",
    }  # fmt: skip
    assert found["checks"][-1]["problem"] == problem and found["checks"][-1]["remedy"]
    assert not list(tmp_path.iterdir())


def test_several_data_gpus_are_given_as_to_a_run():
    assert validate_parser().parse_all([]).data_gpu == (0,)
    assert validate_parser().parse_all(["--data-gpu", "0,2"]).data_gpu == (0, 2)
    with pytest.raises(ConfigError, match="--data-gpu: found '0,0'; expected a GPU index such as"):
        validate_parser().parse_all(["--data-gpu", "0,0"])


def test_a_python_without_tensorflow_is_told_of_the_one_that_has_it(monkeypatch):
    def version(name):
        raise machine_checks.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(machine_checks.importlib.metadata, "version", version)
    with pytest.raises(CheckFailed) as caught:
        machine_checks.prerequisites(list_gpus(2))
    assert "make setup" in caught.value.remedy and ".venv/bin/python" in caught.value.remedy


def test_a_corpus_that_can_not_be_written_names_the_folder_to_make_room_in(tmp_path):
    (tmp_path / "file").touch()
    placement = machine_checks.placed(0, 1, list_gpus(2))
    with pytest.raises(CheckFailed, match="the demo corpus can't be made: .*") as caught:
        machine_checks.prepared_run(tmp_path / "file", placement, 2)
    assert "Free space in TMPDIR" in caught.value.remedy


def test_there_is_a_remedy_for_every_sort_of_trouble():
    assert set(machine_checks._REMEDIES) == set(Trouble)
    assert set(machine_checks._REMEDY_OF) == set(Misplaced)
    killed = machine_checks.as_failed_check(TandemError("the model process ended", Trouble.KILLED))
    assert str(killed) == "the model process ended" and "dmesg" in killed.remedy


def test_two_processes_on_one_gpu_or_on_all_its_memory_are_told_apart():
    gpu = Gpu(0, "GeForce", "GPU-aaaa", 24 << 10, 0)
    facts = DeviceFacts("gpu", 1, "GPU-aaaa", True, (0, 1), "2.20")
    assert misplaced("data", gpu, facts) is None
    for change, kind in (
        ({"num_gpus": 2}, Misplaced.GPUS),
        ({"visible": "GPU-bbbb"}, Misplaced.GPUS),
        ({"memory_growth": False}, Misplaced.MEMORY),
    ):
        assert misplaced("data", gpu, dataclasses.replace(facts, **change)).kind is kind
    assert not_apart(facts, facts).kind is Misplaced.GPUS
    assert not_apart(facts, dataclasses.replace(facts, visible="GPU-bbbb")) is None
    fake = dataclasses.replace(facts, device_kind="fake", num_gpus=0)
    assert not_apart(fake, fake).kind is Misplaced.CORES
    assert not_apart(fake, dataclasses.replace(fake, cores=(2, 3))) is None


@pytest.mark.parametrize("role", ["data", "model"])
def test_a_device_that_computes_something_else_than_the_cpu_fails(role):
    gpu = Gpu(0, "GeForce", "GPU-aaaa", 24 << 10, 0)
    machine_checks._check_numbers(role, Compared({"mel": 0.001, "rows": 0.0}), gpu)
    with pytest.raises(CheckFailed, match=f"the {role} process computes something else on GeForce"):
        machine_checks._check_numbers(role, Compared({"mel": 1.0, "rows": 0.0}), gpu)
