"""The file that a person can send: what it says of a machine, and what it keeps to itself."""

import json

import pytest
from played_gpus import GEFORCE, UUIDS, Machine, compiled

from shared.commands import machine_report
from shared.commands.machine_report import check_report_path, prediction_errors
from shared.errors import InputError
from shared.worker.check_lines import Timed

PROGRAM = """
import json
from pathlib import Path
from shared.commands.machine_report import write_report
from shared.devices.gpus import list_gpus
checks = [{{"passed": False, "problem": f"see {{Path.home()}}/runs/mine, and {{Path.cwd()}}/x"}}]
write_report({path!r}, "validate", list_gpus(0), None, checks=checks)
print(json.dumps([str(Path.home()), str(Path.cwd())]))
"""


def timed(**changes):
    values = {
        "size": "small", "precision": "float32", "rows": 32, "lengths": (640, 96), "first_s": 9.0,
        "step_ms": 30.0, "host_ms": 8.0, "busy": 0.97, "counted": {"kernels": 1900.0, "busy_ms": 21.0},
        "predicted_mb": 1500, "allocated_mb": 1490,
    }  # fmt: skip
    return Timed(**{**values, **changes})


def test_a_report_tells_the_machine_and_neither_places_nor_serial_numbers(tmp_path):
    path = tmp_path / "report.json"
    played = Machine(compiled(tmp_path))
    places = played.python(PROGRAM.format(path=str(path)), gpus=f"{GEFORCE};GTX 980,4096,0,5.2")
    text = path.read_text()
    assert not any(place in text for place in places if len(place) > 1)
    assert not any(uuid in text for uuid in UUIDS)
    found = json.loads(text)
    assert found["command"] == "validate" and found["checks"][0]["problem"].startswith("see …/runs")
    first, second = found["gpus"]
    assert first["name"] == "RTX 4090" and first["memory_mb"] == 24576
    assert first["capability"] == [8, 9] and not first["problem"]
    assert "TensorFlow was built for" in second["problem"]
    assert found["versions"]["NVIDIA driver"] == "575.57.08 (serves CUDA 12.9)"
    assert {"tensorflow", "python", "TensorFlow built for"} <= found["versions"].keys()


def test_what_a_gpu_did_otherwise_than_was_modelled_is_named(monkeypatch):
    monkeypatch.setattr(machine_report, "MODELLED", {"small": {"kernels": 1860.0, "busy_ms": 12.0}})
    assert prediction_errors([timed()]) == ["small: busy ms 21, modelled 12"]
    for other in (timed(rows=4), timed(precision="bfloat16"), timed(counted={}), timed(size="big")):
        assert prediction_errors([other]) == []
    (wrong,) = prediction_errors([timed(rows=4, allocated_mb=2400)])
    assert "1,500 MB were predicted" in wrong and "2,400 MB" in wrong


def test_a_report_that_can_not_be_written_is_refused_before_anything_is_measured(tmp_path):
    check_report_path(None)
    check_report_path(str(tmp_path / "report.json"))
    with pytest.raises(InputError, match="is a folder; name a file"):
        check_report_path(str(tmp_path))
    with pytest.raises(InputError, match="there is no folder to write it to"):
        check_report_path(str(tmp_path / "none" / "report.json"))
