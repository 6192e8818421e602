"""Real runs on fake GPUs under random faults, held against an undisturbed run.

    python benchmarks/faults.py data --kills 100 --seed 1     # SIGKILL of data processes
    python benchmarks/faults.py spare --kills 8 --steps 1000  # the same with --spare-data-worker
    python benchmarks/faults.py model --kills 20 --seed 1     # SIGKILL of the model process
    python benchmarks/faults.py both --kills 60 --seed 1      # both; a model process for every 4
    python benchmarks/faults.py stops --stops 50 --seed 1     # fifty stops by each signal
    python benchmarks/faults.py mixed --seed 1                # all faults at once, on two workers
    python benchmarks/faults.py full-disk --kills 5           # a small filesystem, full at times
    python benchmarks/faults.py corrupt --kills 8 --seed 1    # audio files go bad, processes die
    python benchmarks/faults.py total                         # the sums of all runs so far

Every run prints its faults, seed, violations and recovery times, and adds a line to
WORK/results.jsonl, so that a long figure can be taken in portions; `total` adds them up. Exit code
1 when anything was violated. Seed and the run's own pace decide when a fault strikes.

`corrupt` can't equal an undisturbed run. It must name every file that went bad and no other, train
all others in every epoch, and equal a run that has the same quarantine from its start, sound files
and nothing else to disturb it.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from damaged_corpus import train_by_hand
from fault_check import longest_wait_ms, violations_of
from fault_kinds import (
    MODEL_KILLED,
    MODEL_KILLED_IN_SAVE,
    DamageAudio,
    DiskFaults,
    FillDisk,
    Freeze,
    KillData,
    KillModel,
    Told,
    disturb,
)
from fault_peers import GarbagePeers
from fault_runs import Run, make_corpus, read_lines
from fault_stops import stop_again_and_again

from shared.plan.index import TRAIN, Index

DEADLINE_S = 3600.0
# What a run is expected to say of its faults; shown, so that one can see that they struck.
SAID = ("starting it again", "The checkpoint was not saved", "is passed over", "its stack is in",
        "logs of the run can't be written", "Left out")  # fmt: skip
SMALL_DISK_MB = 120  # room for a handful of tiny checkpoints


def reference_run(work: Path, corpus: Path, steps: int) -> Path:
    """The undisturbed run, made once for each length."""
    folder = work / f"reference-{steps}"
    if not (folder / "whole").exists():
        shutil.rmtree(folder, ignore_errors=True)
        run = Run(folder, corpus, work, "--max-steps", str(steps))
        if run.process.wait() != 0:
            raise SystemExit(f"the undisturbed run failed:\n{run.text}")
        (folder / "whole").touch()
    return folder


def data_kinds(flags, rng, told):
    return [KillData(rng, told, flags.kills)]


def model_kinds(flags, rng, told):
    return [KillModel(rng, told, flags.kills)]


def spare_kinds(flags, rng, told):
    return [KillData(rng, told, flags.kills, while_starting=0.0, with_spare=True)]


def both_kinds(flags, rng, told):
    return [KillData(rng, told, flags.kills), KillModel(rng, told, flags.kills // 4)]


def full_disk_kinds(flags, rng, told):
    return [FillDisk(rng, told, flags.kills)]


def mixed_kinds(flags, rng, told):
    return [
        KillData(rng, told, 2 * flags.kills),
        KillModel(rng, told, flags.kills, damage=0.5),
        Freeze(rng, told, "data_worker", max(1, flags.kills // 4)),
        Freeze(rng, told, "model_worker", max(1, flags.kills // 8)),
        DiskFaults(rng, told, 2 * flags.kills),
        GarbagePeers(rng, told),
    ]


def corrupt_kinds(flags, rng, told):
    return [
        DamageAudio(rng, told, flags.kills, flags.steps - MET_AGAIN_WITHIN),
        KillData(rng, told, flags.kills),
        KillModel(rng, told, max(1, flags.kills // 4)),
    ]


# scenario -> (its faults, the flags that its runs have beside the usual ones)
SCENARIOS = {
    "data": (data_kinds, ["--buffer-size", "4"]),
    "spare": (spare_kinds, ["--buffer-size", "4", "--spare-data-worker"]),
    "model": (model_kinds, []),
    "both": (both_kinds, ["--data-workers", "2", "--buffer-size", "6"]),
    "mixed": (mixed_kinds, ["--data-workers", "2", "--buffer-size", "8"]),
    "full-disk": (full_disk_kinds, []),
    "corrupt": (corrupt_kinds, ["--data-workers", "2", "--buffer-size", "6", "--cache", "off",
                                "--max-bad-fraction", "0.5"]),
}  # fmt: skip
CORRUPT_UTTERANCES = 48
MET_AGAIN_WITHIN = 60  # batches: two epochs of these, in twos, and what is under way
_SMALL_DISK = "TANDEM_SMALL_DISK"


def enter_small_disk(work: Path) -> Path:
    """A tmpfs of our own, which ends with this process: no other program sees it."""
    if _SMALL_DISK not in os.environ:
        os.environ[_SMALL_DISK] = "1"
        os.execvp("unshare", ["unshare", "-Urm", sys.executable, *sys.argv])
    disk = work / "small-disk"
    disk.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_MB}m", "tmpfs", str(disk)]
    subprocess.run(command, check=True)
    return disk


def run_scenario(flags: argparse.Namespace, work: Path) -> dict:
    """One disturbed run and what came of it."""
    if flags.scenario == "corrupt":
        sound = make_corpus(work / "sound-corpus", CORRUPT_UTTERANCES)
        corpus = put_back(sound, work / "corrupt-corpus")
    else:
        corpus = make_corpus(work / "corpus")
        reference = reference_run(work, corpus, flags.steps)
    make_kinds, run_flags = SCENARIOS[flags.scenario]
    place = enter_small_disk(work) if flags.scenario == "full-disk" else work
    folder = place / f"{flags.scenario}-{flags.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    told, rng = Told(), random.Random(flags.seed)
    (work / "disk-faults").unlink(missing_ok=True)
    started_s = time.monotonic()
    run = Run(folder, corpus, work, "--max-steps", str(flags.steps), *run_flags)
    kinds = make_kinds(flags, rng, told)
    try:
        disturb(run, kinds, DEADLINE_S)
        found = [] if run.process.returncode == 0 else [f"exit code {run.process.returncode}"]
        if flags.scenario != "corrupt":
            found += violations_of(folder, reference)
        elif not found:
            damaged = next(kind.damaged for kind in kinds if isinstance(kind, DamageAudio))
            found += quarantine_violations(folder, set(damaged))
            put_back(sound, corpus)
            found += violations_of(folder, replay(folder, work))
        for words in SAID:
            told.said[words] = run.text.count(words)
        found += [f"left behind: {thing}" for thing in run.remains()]
    except TimeoutError as error:
        found = [str(error)]
    finally:
        run.end()
        for kind in kinds:
            getattr(kind, "close", lambda: None)()
    return {
        "scenario": flags.scenario,
        "seed": flags.seed,
        "seconds": round(time.monotonic() - started_s, 1),
        "batches": len(read_lines(folder / "audit.jsonl")),
        "faults": told.faults,
        "recovery_s": told.recovery_s,
        "said": told.said,
        "longest_wait_ms": longest_wait_ms(folder),
        "violations": found,
    }


def put_back(sound: Path, corpus: Path) -> Path:
    """Make `corpus` a copy of the sound one."""
    shutil.rmtree(corpus, ignore_errors=True)
    return Path(shutil.copytree(sound, corpus))


def quarantine_violations(run: Path, damaged: set[str]) -> list[str]:
    """Whether all that went bad is named, and nothing else, and all others were trained."""
    records = [r for r in read_lines(run / "quarantine.jsonl") if "from_batch" in r]
    left_out: dict[str, int] = {}
    for record in records:  # one that was made later may be an earlier batch's
        earlier = left_out.get(record["id"], record["from_batch"])
        left_out[record["id"]] = min(earlier, record["from_batch"])
    found = [f"{name} went bad and is not named" for name in sorted(damaged - left_out.keys())]
    found += [f"{name} is named without need" for name in sorted(left_out.keys() - damaged)]
    index = Index.load(run / "index.safetensors")
    every = {index.ids[row] for row in range(len(index)) if index.split[row] == TRAIN}
    return found + epoch_violations(read_lines(run / "audit.jsonl"), left_out, every)


def epoch_violations(audit: list[dict], left_out: dict[str, int], every: set[str]) -> list[str]:
    """Utterances that are trained though left out, or missing from an epoch without that.

    `left_out` has the first batch that does without each, `every` all that there are to train.
    """
    found = []
    epochs: dict[int, list[dict]] = {}
    for record in audit:
        epochs.setdefault(record["epoch"], []).append(record)
        found += [
            f"batch {record['batch_index']} has {name}, left out from {left_out[name]} on"
            for name in record["utterances"]
            if left_out.get(name, math.inf) <= record["batch_index"]
        ]
    whole = [batches for batches in epochs.values() if len(batches) == len(epochs[0])]
    for batches in whole:
        epoch, last = batches[0]["epoch"], batches[-1]["batch_index"]
        times = Counter(name for record in batches for name in record["utterances"])
        absent = every - times.keys()
        found += [
            f"{name} was not trained in epoch {epoch}"
            for name in sorted(absent)
            if left_out.get(name, math.inf) > last
        ]
        # Where one is left out another one stands in for it.
        if times.total() - len(times) > len(absent):
            found.append(f"epoch {epoch} repeats more utterances than were left out of it")
    return found


def replay(run: Path, work: Path) -> Path:
    """The same run by two processes that nobody disturbs, its quarantine known from the start."""
    again = run.with_name(f"{run.name}-again")
    shutil.rmtree(again, ignore_errors=True)
    again.mkdir()
    for name in ("config.toml", "index.safetensors", "quarantine.jsonl"):
        shutil.copy(run / name, again)
    environment = {**os.environ, "TANDEM_CACHE": str(work / "cache"),
                   "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}  # fmt: skip
    if code := train_by_hand(again, 1, environment):
        raise SystemExit(f"the replay failed with {code}: see {again}")
    return again


def run_stops(flags: argparse.Namespace, work: Path) -> dict:
    corpus = make_corpus(work / "corpus")
    reference = reference_run(work, corpus, flags.steps)
    started_s = time.monotonic()
    told = Told()
    found = stop_again_and_again(flags, work, corpus, reference, told)
    return {
        "scenario": "stops",
        "seed": flags.seed,
        "seconds": round(time.monotonic() - started_s, 1),
        "batches": flags.steps,
        "faults": told.faults,
        "recovery_s": told.recovery_s,
        "violations": found,
    }


def show(result: dict) -> None:
    """One result, or the sum of several, in words."""
    print(f"{result['scenario']}: seed {result['seed']}, {result['batches']} batches trained, "
          f"{result['seconds']:.0f} s")  # fmt: skip
    for kind, count in sorted(result["faults"].items()):
        print(f"   {count:6} × {kind}")
    in_save, others = (result["faults"].get(k, 0) for k in (MODEL_KILLED_IN_SAVE, MODEL_KILLED))
    if in_save + others:
        print(f"   {in_save} of {in_save + others} kills of the model process were during a save: "
              "it was stopped, seen to be saving, and killed")  # fmt: skip
    for words, count in sorted(result.get("said", {}).items()):
        if count:
            print(f"   the run said {count} times: {words}")
    for kind, times in sorted(result["recovery_s"].items()):
        ordered = sorted(times)
        worst, high = ordered[-1], ordered[math.ceil(0.95 * len(ordered)) - 1]
        print(f"   {kind}: median {statistics.median(times):.2f} s, 95 % {high:.2f} s, "
              f"longest {worst:.2f} s ({len(times)} times)")  # fmt: skip
    if "longest_wait_ms" in result:
        print(f"   longest wait for a batch while the queue held one: "
              f"{result['longest_wait_ms']:.0f} ms")  # fmt: skip
    print(f"   violations: {len(result['violations'])}")
    for violation in result["violations"][:20]:
        print(f"      {violation}")


def add_up(results: list[dict]) -> list[dict]:
    """One sum for each scenario."""
    sums: dict[str, dict] = {}
    for result in results:
        total = sums.setdefault(result["scenario"], {
            "scenario": result["scenario"], "seed": [], "seconds": 0.0, "batches": 0,
            "faults": {}, "said": {}, "recovery_s": {}, "violations": [],
        })  # fmt: skip
        total["seed"].append(result["seed"])
        total["seconds"] += result["seconds"]
        total["batches"] += result["batches"]
        total["violations"] += result["violations"]
        for field in ("faults", "said"):
            for kind, count in result.get(field, {}).items():
                total[field][kind] = total[field].get(kind, 0) + count
        for kind, times in result["recovery_s"].items():
            total["recovery_s"].setdefault(kind, []).extend(times)
        if "longest_wait_ms" in result:
            longest = max(total.get("longest_wait_ms", 0.0), result["longest_wait_ms"])
            total["longest_wait_ms"] = longest
    return list(sums.values())


def keep_for_us(work: Path) -> bool:
    """Whether nobody else works in the folder: what they leave would be taken for ours."""
    descriptor = os.open(work / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True  # and the descriptor is ours until the end


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("scenario", choices=[*SCENARIOS, "stops", "total"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--stops", type=int, default=2, help="by each signal")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--work", default="benchmarks/work/faults", help="folder to work in")
    flags = parser.parse_args()
    work = Path(flags.work).resolve()
    work.mkdir(parents=True, exist_ok=True)
    if flags.scenario != "total" and not keep_for_us(work):
        parser.error(f"{work} is used by another one of these now; give --work another folder")
    # Peers find the run's socket by it, as its workers do.
    os.environ["XDG_RUNTIME_DIR"] = str(work / "runtime")
    results = work / "results.jsonl"
    if flags.scenario == "total":
        found = add_up(read_lines(results))
    else:
        found = [run_stops(flags, work) if flags.scenario == "stops" else run_scenario(flags, work)]
        with open(results, "a", encoding="utf-8") as file:
            file.write(json.dumps(found[0]) + "\n")
    for result in found:
        show(result)
    return int(any(result["violations"] for result in found))


if __name__ == "__main__":
    sys.exit(main())
