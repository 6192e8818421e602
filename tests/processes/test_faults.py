"""The short version of benchmarks/faults.py: faults of several kinds in one run change nothing."""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from fault_check import violations_of
from fault_kinds import DiskFaults, KillData, KillModel, Told, disturb
from fault_peers import GarbagePeers
from fault_runs import Run


def test_kills_a_full_disk_and_garbage_peers_change_nothing(runs, undisturbed, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runs.folder / "runtime"))
    told, rng = Told(), random.Random(3)
    folder = runs.folder / "run"
    cache = Path(runs.environment["TANDEM_CACHE"])
    run = Run(folder, runs.corpus, runs.folder, "--max-steps", "14", "--buffer-size", "2",
              settings=runs.settings, cache=cache)  # fmt: skip
    kinds = [
        KillData(rng, told, 2), KillModel(rng, told, 1), DiskFaults(rng, told, 1),
        GarbagePeers(rng, told),
    ]  # fmt: skip
    try:
        disturb(run, kinds, 240)
        assert run.process.returncode == 0, run.text + runs.logs("run")
        assert violations_of(folder, undisturbed.folder / "run") == []
        assert run.remains() == []
    finally:
        run.end()
        kinds[-1].close()
    kills = {kind: n for kind, n in told.faults.items() if kind.startswith("SIGKILL")}
    assert kills["SIGKILL of a data process"] == 2
    assert sum(kills.values()) == 3
    assert told.faults["garbage message"] > 10
