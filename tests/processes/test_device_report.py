"""What `--report` and `--gpu-memory` measure and predict, by their real child processes."""

import json

import pytest

from shared.config.toml_file import load_config
from shared.devices.gpus import list_gpus
from shared.launching.device_measurement import measured_steps
from shared.run.directory import RunDirectory
from shared.worker.memory_ahead import TRIED_ROWS, predicted


@pytest.fixture
def prepared(runs):
    """A run directory whose data was looked at, and its configuration."""
    runs.finish("run", "--prepare-only")
    run = RunDirectory(runs.folder / "run")
    return run, load_config(run.config)


def test_steps_are_timed_and_their_memory_is_predicted(prepared, monkeypatch):
    run, config = prepared
    monkeypatch.setattr("shared.launching.device_measurement._SECONDS", 0.2)
    said = []
    found = measured_steps(config, run, list_gpus(2)[1], ("tiny",), said.append)
    assert found.problems == {} and found.copies == [], said
    (timed,) = found.steps
    assert (timed.size, timed.precision, timed.rows) == ("tiny", "float32", 4)
    assert timed.lengths == (640, 96)
    assert 0 < timed.host_ms <= timed.step_ms and timed.first_s > 0
    assert timed.counted == {} and timed.allocated_mb is None and timed.predicted_mb > 10
    assert said[0].startswith("   tiny, 4 rows, float32: ")


def test_a_size_that_can_not_be_timed_says_why_and_leaves_the_others(prepared):
    run, config = prepared
    run.index.write_bytes(b"damaged")
    found = measured_steps(config, run, None, ("tiny",), lambda text: None)
    assert found.steps == [] and set(found.problems) == {"tiny"} and found.problems["tiny"]


@pytest.mark.long
def test_memory_is_predicted_for_sizes_that_are_not_the_runs_own(prepared):
    run, config = prepared
    found = predicted(config, run, None, TRIED_ROWS, ("tiny", "small"))
    assert [(each.size, each.rows) for each in found] == [
        ("tiny", 8), ("tiny", 32), ("small", 8), ("small", 32),
    ]  # fmt: skip
    tiny_8, tiny_32, small_8, small_32 = (each.megabytes for each in found)
    assert tiny_8 < tiny_32 < small_32 and tiny_8 < small_8


@pytest.mark.long
def test_check_data_predicts_for_a_gpu_that_was_named(runs):
    done = runs.python(
        "launcher.py", "check-data", str(runs.corpus), "--gpu-memory", "12288", "--html",
        str(runs.folder / "page.html"),
    )  # fmt: skip
    assert done.wait() in (0, 1), done.text
    assert "Memory that a step takes on a GPU (batches of " in done.text
    assert "float32; 12.0 GB free)" in done.text and "not measured" in done.text
    assert "Memory that a step takes on a GPU" in (runs.folder / "page.html").read_text()


@pytest.mark.long
def test_validate_writes_a_report_of_fake_gpus_too(runs):
    path = runs.folder / "report.json"
    flags = ("--fake-gpus", "2", "--gpu-memory", "8192", "--report", str(path))
    done = runs.python("launcher.py", "validate", *flags)
    assert done.wait(400) == 0, done.text
    found = json.loads(path.read_text())
    assert found["passed"] and len(found["checks"]) == 5
    assert [each["size"] for each in found["steps"]] == ["tiny", "small"]
    assert [each["size"] for each in found["memory_predicted"]["fits"]] == [
        "tiny", "small", "normal", "big",
    ]  # fmt: skip
    assert found["copies"] == [] and found["not_as_predicted"] == []
    assert str(runs.folder) not in path.read_text()
