"""`launcher.py bench` with real processes, for a second each."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shared.config.flags import resolve_config, train_parser

ROOT = Path(__file__).resolve().parents[2]

from documents import the_documented

# A mode with its batches/s, seconds of audio a second and percent of its limit; the limits with
# theirs; where the picture is; the flags to use, or none.
ROW = r"^(sequential|single-GPU buffered|multi-GPU) +([\d.]+) +(\d+) +(\d+)% +\d+% "
LIMIT = r"^limit with (\w+) .*: (\d+) s of audio/s \(batches alone (\d+), steps alone (\d+)\)$"
PICTURE = r"^📄 Picture: (runs/bench-\d{8}-\d{6}/bench\.png)$"
USE = r"^👉 Use(?:: (.+)| no flags: .*)$"


def test_bench_of_two_gpus_shows_three_modes_their_limits_and_the_flags_to_use(checkout):
    words = the_documented("bench", "--data-gpu", "--model-gpu")
    command = checkout.documented(
        words, "--fake-gpus", "2", "--seconds", "1", "--model-size", "tiny", "--batch-size", "2",
        "--max-buckets", "1", "--buffer-size", "4", "--model-start-delay", "0",
    )  # fmt: skip
    exit_code = command.wait(240)
    assert exit_code == 0, command.text + logs_of(checkout)
    (picture,) = lines_like(PICTURE, command.text)
    assert (checkout.folder / picture).read_bytes().startswith(b"\x89PNG")
    limits = {on: tuple(map(int, paces)) for on, *paces in lines_like(LIMIT, command.text)}
    assert list(limits) == ["one", "two"]
    assert all(limit == min(data, model) > 0 for limit, data, model in limits.values())
    modes = {mode: tuple(map(float, paces)) for mode, *paces in lines_like(ROW, command.text)}
    assert list(modes) == ["sequential", "single-GPU buffered", "multi-GPU"]
    for mode, (batches_per_s, audio, percent) in modes.items():
        assert batches_per_s > 0
        share = audio / limits["two" if mode == "multi-GPU" else "one"][0]
        assert percent / 100 == pytest.approx(share, rel=0.1)  # both are rounded
    check_advice(command.text, modes["multi-GPU"][1] / modes["single-GPU buffered"][1])
    assert "Fake GPUs are shares of this CPU" in command.text
    assert not checkout.leftovers()


def lines_like(pattern, text):
    return re.findall(pattern, text, re.MULTILINE)


def logs_of(checkout):
    return "".join(checkout.logs(str(run)) for run in checkout.folder.glob("runs/*/*"))


def check_advice(text, gain):
    """One line of flags, which a run takes, and which are those of the faster mode."""
    (flags,) = lines_like(USE, text)
    config = resolve_config(train_parser("launcher.py", "").parse_all(flags.split()))
    faster = re.findall(r"Multi-GPU mode trains (\d+) % faster than single-GPU mode", text)
    if faster:
        assert (config.data.data_gpu, config.data.model_gpu) == ((0,), 1)
        assert 1 + int(faster[0]) / 100 == pytest.approx(gain, rel=0.1)
    else:
        assert "A second GPU for the data gains nothing here" in text and gain < 1.15
        assert (config.data.data_gpu, config.data.model_gpu) == (None, None)


@pytest.mark.long
def test_bench_measures_each_way_and_prints_nothing_but_json(runs):
    out = runs.folder / "bench"
    done = subprocess.run(
        [sys.executable, *the_documented("bench", "--json")[1:], "--train-data", str(runs.corpus),
         "--seconds", "1", "--fake-gpus", "1", "--model-size", "tiny", "--batch-size", "6",
         "--max-buckets", "1", "--out", str(out)],
        cwd=ROOT, env={**os.environ, **runs.environment}, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + runs.logs("bench/single")
    found = json.loads(done.stdout)
    assert [mode["mode"] for mode in found["modes"]] == ["sequential", "single-GPU buffered"]
    assert set(found["limits"]) == {"single"}
    measured = [*found["modes"], *found["limits"]["single"].values()]
    assert all(pace["batches_per_s"] > 0 and pace["seconds"] >= 1 for pace in measured)
    assert "found 1" in found["advice"]["why"][0] and "⏱" in done.stderr
    assert (out / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert not runs.leftovers()
