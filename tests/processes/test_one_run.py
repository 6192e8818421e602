"""One command, two processes: what a run looks like from outside."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

METRICS = {
    "step", "epoch", "loss", "learning_rate", "step_ms", "data_wait_ms", "queue_depth",
    "data_gpu_busy", "model_gpu_busy", "padding_fraction", "amount_per_s", "waited_for_ms",
}  # fmt: skip


def test_a_run_writes_what_it_says_and_tells_its_story(undisturbed):
    run = undisturbed.folder / "run"
    logged = [record for record in undisturbed.metrics("run") if "loss" in record]
    assert [record["step"] for record in logged] == list(range(1, 15))
    assert set(logged[-1]) >= METRICS
    validated = [record["step"] for record in undisturbed.metrics("run") if "val_loss" in record]
    assert validated == [6, 12, 14]
    audit = [json.loads(line) for line in undisturbed.audit("run").splitlines()]
    assert len(audit) == 14 and len({tuple(a["utterances"]) for a in audit}) > 10
    for name in ("config.toml", "index.safetensors", "launcher.log", "data_worker-0.log",
                 "model_worker.log", "quarantine.jsonl", "report.html", "samples/step-000014/0.wav"):  # fmt: skip
        assert (run / name).exists(), name
    said = (run / "launcher.log").read_text()
    for line in ("Waiting 0.2s for data pipeline to warm up", "Model training starting now",
                 "🧭 Waiting for: ", "Finished"):  # fmt: skip
        assert line in said
    assert "Configured memory growth" not in said  # a fake GPU has none


def test_the_waiting_of_a_run_is_explained(undisturbed):
    logged = [record for record in undisturbed.metrics("run") if "loss" in record]
    waited_ms = sum(record["data_wait_ms"] for record in logged)
    explained_ms = sum(sum(record["waited_for_ms"].values()) for record in logged)
    assert explained_ms >= 0.95 * waited_ms


def test_every_utterance_comes_once_per_epoch(undisturbed):
    audit = [json.loads(line) for line in undisturbed.audit("run").splitlines()]
    first = [name for record in audit if record["epoch"] == 0 for name in record["utterances"]]
    assert len(first) == len(set(first)) == 38


@pytest.mark.parametrize(
    "flags, sentence",
    [
        (["--data-gpu", "0", "--model-gpu", "99"], "❌ Invalid model_gpu=99, must be 0-1"),
        (["--data-gpu", "-1", "--model-gpu", "1"], "❌ Invalid data_gpu=-1, must be 0-1"),
        (["--data-gpu", "0"], "❌ --data-gpu was given without --model-gpu"),
        (["--model-gpu", "0"], "❌ --model-gpu was given without --data-gpu"),
        (["--data-gpu", "1", "--model-gpu", "1"], "❌ data_gpu and model_gpu are the same GPU (1)"),
        (["--fake-gpus", "1", "--data-gpu", "0", "--model-gpu", "1"],
         "❌ Multi-GPU requires at least 2 GPUs, found 1"),
    ],
)  # fmt: skip
def test_gpus_that_are_not_there_end_with_1_and_a_sentence(flags, sentence, tmp_path):
    result = _launcher("--fake-gpus", "2", "--train-data", str(tmp_path), *flags)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert "Multi-GPU mode was requested but configuration failed" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--bach-size", "3"], "Did you mean --batch-size?"),
        (["--batch-size", "0"], "expected auto or a whole number from 1"),
        (["--learning-rate", "nan"], "expected a finite number"),
        (["--train-data", "/nowhere/at/all"], "there is no such folder"),
        ([], "--train-data"),
        (["--endpoint", "tcp://*:5555", "--train-data", "."], "loopback"),
        (["--endpoint", "tcp://10.0.0.7:5555", "--train-data", "."], "launcher.py keys"),
        (["--keys", "/nowhere/at/all", "--train-data", "."], "launcher.py keys"),
        (["--deterministic", "--max-minutes", "3", "--train-data", "."], "max_steps"),
    ],
)
def test_mistakes_end_with_2_before_anything_starts(flags, words, tmp_path):
    result = _launcher(*flags, "--run-dir", str(tmp_path / "run"))
    assert result.returncode == 2, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "run").exists()


def _launcher(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "launcher.py", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_a_worker_that_does_not_see_exactly_one_gpu_refuses_to_start(runs):
    runs.finish("run", "--max-steps", "2", "--prepare-only")
    config = runs.folder / "run" / "config.toml"
    config.write_text(config.read_text().replace("fake_gpus = 2", "fake_gpus = 0"))
    worker = runs.python(
        "-m", "data_worker", "--run", str(runs.folder / "run"),
        TANDEM_ROLE="data", CUDA_VISIBLE_DEVICES="0",
    )  # fmt: skip
    assert worker.wait() == 1
    assert "must see exactly one GPU, but TensorFlow sees 0" in worker.text
