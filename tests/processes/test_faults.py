"""The short version of benchmarks/faults.py: faults of several kinds in one run change nothing."""

import argparse
import random
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import faults
from fault_check import violations_of
from fault_kinds import MODEL_KILLED, DiskFaults, KillData, Told, disturb
from fault_peers import GarbagePeers
from fault_runs import Run


class KillModelOnce:
    """SIGKILL of the model process when it has saved, which leaves it more steps than it has done.

    The long version's kills at random moments can all fall after the end of so short a run.
    """

    def __init__(self, told):
        self._told, self._is_done = told, False

    def act(self, run, now_s):
        for life in run.lives_of("model_worker"):
            if life.ready_s and not self._is_done and run.signal(life.pid, signal.SIGKILL):
                self._is_done = True
                self._told.count(MODEL_KILLED)


def test_kills_a_full_disk_and_garbage_peers_change_nothing(runs, undisturbed, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runs.folder / "runtime"))
    told, rng = Told(), random.Random(3)
    folder = runs.folder / "run"
    cache = Path(runs.environment["TANDEM_CACHE"])
    run = Run(folder, runs.corpus, runs.folder, "--max-steps", "14", "--buffer-size", "2",
              settings=runs.settings, cache=cache)  # fmt: skip
    garbage = GarbagePeers(rng, told)
    kinds = [
        KillData(rng, told, 2, while_starting=0.0), KillModelOnce(told),
        DiskFaults(rng, told, 1), garbage,
    ]  # fmt: skip
    try:
        disturb(run, kinds, 240)
        assert run.process.returncode == 0, run.text + runs.logs("run")
        assert violations_of(folder, undisturbed.folder / "run") == []
        assert run.remains() == []
    finally:
        run.end()
        garbage.close()
    assert told.faults["SIGKILL of a data process"] == 2
    assert told.faults[MODEL_KILLED] == 1
    assert told.faults["garbage message"] > 10


@pytest.mark.long
def test_audio_that_goes_bad_is_named_and_a_replay_is_the_same(tmp_path_factory, monkeypatch):
    work = tmp_path_factory.mktemp("f")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(work / "runtime"))
    flags = argparse.Namespace(scenario="corrupt", seed=5, kills=4, steps=120)
    result = faults.run_scenario(flags, work)
    assert result["violations"] == []
    assert sum(n for kind, n in result["faults"].items() if kind.startswith("audio")) == 4
