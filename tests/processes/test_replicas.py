"""Several model GPUs train as one would: the same audit and weights, whatever happens to them."""

import json
import math
import os
import shutil
import signal

import numpy as np
import pytest

from shared.plan.index import TRAIN, VALIDATION, Index

TOGETHER = ("--fake-gpus", "3", "--model-gpu", "1,2")
LOST = "it has lost another replica; starting it again"


def assert_same(runs, name, expected):
    assert runs.audit(name) == expected.audit("run")
    assert runs.weights(name) == expected.weights("run")
    assert losses(runs, name) == losses(expected, "run")
    assert runs.leftovers() == []


def losses(runs, name):
    """What is logged of each step and validation, but for times."""
    kept = ("step", "loss", "gradient_norm", "learning_rate", "val_loss", "padding_fraction")
    return [{n: record[n] for n in kept if n in record} for record in runs.metrics(name)]


def test_two_replicas_end_in_the_bits_of_one_process_though_one_is_killed(runs, in_pairs):
    command = runs.launch("two", *runs.pairs, *TOGETHER)
    runs.wait_for_step(command, "two", 2)
    data_worker = command.child("data_worker")
    os.kill(command.child("--replica"), signal.SIGKILL)
    assert command.wait() == 0, command.text + runs.logs("two")
    assert "model_worker-1: killed by SIGKILL; starting it again" in command.text
    assert f"model_worker: {LOST}" in command.text
    joined = (runs.folder / "two" / "model_worker-1.log").read_text()
    assert joined.count(f"data process data_worker-0 (pid {data_worker}) joined") == 2
    assert_same(runs, "two", in_pairs)


@pytest.mark.long
def test_a_run_of_two_replicas_goes_on_with_one_after_a_stop(runs, in_pairs):
    command = runs.launch("mine", *runs.pairs, *TOGETHER)
    runs.wait_for_step(command, "mine", 2)
    children = [command.child("--replica"), command.child("model_worker")]
    command.signal(signal.SIGINT)
    assert command.wait(30) == 130, command.text + runs.logs("mine")
    runs.wait_for_end(children, 1)
    assert runs.leftovers() == []
    done = max(record["step"] for record in runs.metrics("mine"))
    assert done < 8
    runs.finish("mine", "--model-gpu", "1")
    assert f"Continuing from step {done}" in (runs.folder / "mine" / "launcher.log").read_text()
    assert_same(runs, "mine", in_pairs)


@pytest.mark.long
def test_files_that_can_not_be_read_any_more_are_left_out_by_all_replicas(runs):
    runs.corpus = shutil.copytree(runs.corpus, runs.folder / "corpus")
    runs.finish("two", *runs.pairs, *TOGETHER, "--prepare-only")
    index = Index.load(runs.folder / "two" / "index.safetensors")
    bad = {split: int(np.flatnonzero(index.split == split)[0]) for split in (TRAIN, VALIDATION)}
    for row in bad.values():
        damage(runs.corpus / index.paths[row])
    runs.finish("two", *TOGETHER)
    lines = (runs.folder / "two" / "quarantine.jsonl").read_text().splitlines()
    left_out = [entry for entry in map(json.loads, lines) if "from_batch" in entry]
    assert {entry["row"] for entry in left_out} == {*bad.values()}
    trained = [json.loads(line) for line in runs.audit("two").splitlines()]
    assert len(trained) == 16
    for entry in left_out:
        until = entry.get("until_batch", math.inf)
        covered = [b for b in trained if entry["from_batch"] <= b["batch_index"] < until]
        assert not any(entry["id"] in batch["utterances"] for batch in covered)
    assert all(math.isfinite(each["loss"]) for each in losses(runs, "two") if "loss" in each)


def damage(path):
    """The same size and time, and no recording any more: whoever looks from outside sees nothing."""
    about, content = path.stat(), path.read_bytes()
    path.write_bytes(b"none" + content[4:])
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


@pytest.mark.long
def test_the_death_of_the_first_replica_costs_what_came_after_the_last_checkpoint(runs, in_pairs):
    command = runs.launch("two", *runs.pairs, *TOGETHER)
    runs.wait_for_step(command, "two", 5)
    second = command.child("--replica")
    os.kill(command.child("model_worker", other_than=second), signal.SIGKILL)
    assert command.wait() == 0, command.text + runs.logs("two")
    assert f"model_worker-1: {LOST}" in command.text
    assert_same(runs, "two", in_pairs)


@pytest.mark.long
def test_a_run_with_statistics_and_seeds_of_its_own_goes_on_with_one_two_and_three(checkout):
    """Batch normalisation and dropout move with each batch, on whichever replica it is."""
    pictures = checkout.python("examples/make_pictures.py", str(checkout.folder / "pictures"))
    assert pictures.wait() == 0
    own = ("--task", "examples/classifier.py", "--train-data", str(checkout.folder / "pictures"),
           "--batch-size", "4", "--grad-accum", "6", "--validate-every", "3")  # fmt: skip
    checkout.finish("alone", *own, "--max-steps", "9")
    checkout.finish("mine", *own, "--max-steps", "3")
    checkout.finish("mine", *own, "--max-steps", "6", *TOGETHER)
    checkout.finish("mine", *own, "--max-steps", "9", "--fake-gpus", "4", "--model-gpu", "1,2,3")
    assert checkout.audit("mine") == checkout.audit("alone")
    assert state_of(checkout, "mine") == state_of(checkout, "alone")


def state_of(runs, name):
    """Every file of arrays of the last checkpoint."""
    last = max((runs.folder / name / "checkpoints").glob("step-*"))
    return {path.name: path.read_bytes() for path in last.glob("*.safetensors")}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ("--grad-accum", "4"),
            "which 3 model GPUs can't share evenly. Name 1 or 2 with --model-gpu",
        ),
        (
            ("--grad-accum", "1"),
            "Name 1 with --model-gpu, or give a new run a --grad-accum of 3 or 6",
        ),
    ],
)
def test_batches_that_replicas_can_not_share_end_with_2(runs, flags, words):
    command = runs.launch("run", "--fake-gpus", "4", "--model-gpu", "1,2,3", *flags)
    assert command.wait() == 2 and words in command.text
    assert not (runs.folder / "run").exists()
