"""`launcher.py bench` with real processes, for a second each."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from documents import the_documented


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
