"""Tasks that people bring: every promise of a run holds for them, as for the one that is built in."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile
from documents import blocks, command_lines, words_of
from mistaken_task import SOUND, write_data
from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parents[2]
CLASSIFIER = ROOT / "examples" / "classifier.py"
FROZEN = ROOT / "examples" / "frozen_network.py"
OWN_MODEL = ROOT / "docs" / "own-model.md"
TEXT_TO_MEL = ROOT / "tests" / "own_models" / "text_to_mel_task.py"
STEPS = 300
FLAGS = (
    "--max-steps", str(STEPS), "--buffer-size", "2", "--validate-every", "100",
    "--checkpoint-every", "20",
)  # fmt: skip


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    command = [sys.executable, "examples/make_pictures.py", str(folder), "20"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def classified(runs_on, pictures):
    """A run of the classifier that nothing disturbed, with one data worker."""
    runs = runs_on(pictures)
    runs.told = runs.finish("run", "--task", str(CLASSIFIER), *FLAGS, "--report").text
    return runs


def state_of(runs, name) -> dict[str, np.ndarray]:
    """What the last checkpoint holds beside weights and optimizer."""
    last = max((runs.folder / name / "checkpoints").glob("step-*"))
    return load_file(last / "state.safetensors")


def seen_on_a_terminal(runs, *arguments: str) -> str:
    """What a command that ends well shows to somebody who watches it."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 1 << 16):
                seen.append(piece)
        except OSError:
            return  # the other end is closed

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    environment = {
        **os.environ,
        **runs.environment,
        "TERM": "xterm-256color",
        "CI": "",
        "COLUMNS": "120",
    }
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env=environment, stdin=theirs, stdout=theirs,
        stderr=theirs, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            status = process.wait(180)
        finally:
            process.kill()
    reader.join(10)
    os.close(ours)
    text = b"".join(seen).decode(errors="replace")
    assert status == 0, text
    return text


def test_the_example_of_a_task_is_short():
    assert len(CLASSIFIER.read_text().splitlines()) <= 60


def test_a_killed_run_of_a_users_task_ends_in_the_same_weights(classified, runs):
    runs.corpus = classified.corpus
    task = ("--task", str(CLASSIFIER))
    command = runs.launch("run", *task, *FLAGS, "--data-workers", "3")
    model = command.child("model_worker")
    runs.wait_for_step(command, "run", 40)
    os.kill(model, signal.SIGKILL)
    workers = [command.child("data_worker"), command.child("model_worker", other_than=model)]
    runs.wait_for_log("run", "launcher", "killed by SIGKILL; starting it again")
    runs.wait_for_step(command, "run", 80)
    command.signal(signal.SIGKILL)
    command.wait()
    runs.wait_for_end(workers, deadline_s=10)
    last = max(record["step"] for record in runs.metrics("run"))
    assert last < STEPS, "it was over before it was killed"
    # Without --task nothing of it is run, and the way on is told.
    refused = runs.launch("run")
    assert refused.wait() == 2 and "was begun with --task classifier.py" in refused.text
    seen = seen_on_a_terminal(runs, "launcher.py", "--run-dir", str(runs.folder / "run"), *task)
    assert "Continuing from step" in seen
    assert re.search(r"\d pictures/s", seen) and "audio" not in seen
    assert runs.audit("run") == classified.audit("run")
    assert len(runs.audit("run").splitlines()) == STEPS
    assert runs.weights("run") == classified.weights("run")
    averages = {n: a for n, a in state_of(runs, "run").items() if "moving_mean" in n}
    assert len(averages) == 3 and all(np.abs(array).max() > 0 for array in averages.values())
    assert runs.leftovers() == []


def test_a_users_task_is_told_in_its_own_unit(classified):
    text = classified.told
    assert "60 examples, 3 groups" in text
    assert {record["unit"] for record in classified.metrics("run") if "unit" in record} == {
        "pictures"
    }
    page = (classified.folder / "run" / "report.html").read_text()
    assert "pictures" in page
    assert not re.search(
        r"\b(utterance|audio|mel|speaker|spoken|voice)", page.partition("<body")[2]
    )
    losses = [record["loss"] for record in classified.metrics("run") if "loss" in record]
    assert np.mean(losses[-20:]) < 0.7 * np.mean(losses[:20])


@pytest.mark.long
def test_an_edited_task_is_refused_until_that_is_accepted(classified, runs, tmp_path):
    task = tmp_path / "mine.py"
    task.write_bytes(CLASSIFIER.read_bytes())
    runs.corpus = classified.corpus
    runs.finish("run", "--task", str(task), "--max-steps", "3")
    identity = json.loads((runs.folder / "run" / "task.json").read_text())
    task.write_text(task.read_text().replace("1e-3", "2e-3"))
    again = ("--task", str(task), "--max-steps", "6")
    refused = runs.launch("run", *again)
    assert refused.wait() == 2
    assert "mine.py was edited since" in refused.text and "--accept-edited-task" in refused.text
    accepted = runs.finish("run", *again, "--accept-edited-task")
    assert "Continuing from step 3" in accepted.text
    now = json.loads((runs.folder / "run" / "task.json").read_text())
    assert now["sha256"] != identity["sha256"]


def test_features_of_a_frozen_network_are_trained_on_by_workers_started_by_hand(classified, runs):
    runs.corpus = classified.corpus
    task = ("--task", str(FROZEN))
    runs.finish("run", *task, "--max-steps", "8", "--cache", "off", "--prepare-only")
    folder = str(runs.folder / "run")
    without = runs.python("-m", "data_worker", "--run", folder)
    workers = [
        runs.python("-m", module, "--run", folder, *task)
        for module in ("model_worker", "data_worker")
    ]
    for worker in workers:
        assert worker.wait() == 0, worker.text
    assert without.wait() == 2 and "was begun with --task frozen_network.py" in without.text
    assert max(record["step"] for record in runs.metrics("run")) == 8


def test_a_model_written_for_another_trainer_learns_from_our_data_side(runs):
    assert len(TEXT_TO_MEL.read_text().splitlines()) <= 80
    runs.finish("run", "--task", str(TEXT_TO_MEL), "--max-steps", "40", "--validate-every", "20")
    records = runs.metrics("run")
    losses = [record["loss_mel"] for record in records if "loss_mel" in record]
    assert len(losses) == 40 and np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    judged = [record["val_mel"] for record in records if "val_mel" in record]
    assert len(judged) == 2 and judged[1] < judged[0]
    state = state_of(runs, "run")
    assert any("moving_variance" in name for name in state) and any(
        "seed" in name for name in state
    )


def documented_proofs() -> list[list[str]]:
    lines = [line for page, line in command_lines() if page == "docs/own-model.md"]
    return [words_of(line) for line in lines if "validate --task" in line]


def test_the_documented_tasks_are_sound(checkout, pictures):
    """Both at once: a model of the page on our data side, and the example with its own data."""
    (checkout.folder / "pictures").symlink_to(pictures)
    commands = [checkout.documented(words) for words in documented_proofs()]
    assert len(commands) == 2
    for command in commands:
        assert command.wait() == 0, command.text
        assert command.text.count("✅") == 3 and "🎉 The task is sound" in command.text
        assert "resume: " in command.text and "bit-equal" in command.text


@pytest.mark.long
@pytest.mark.parametrize(("method", "cause"), [("read", "decoding"), ("features", "features")])
def test_a_slow_method_of_a_task_is_what_the_verdict_names(runs, tmp_path, method, cause):
    """What a task's `read` takes beyond the disk counts as decoding; see docs/own-model.md."""
    begin, slow = (
        {"read": "return np.fromfile", "features": "return [raw * 2"}[method],
        "import time",
    )
    assert begin in SOUND
    (tmp_path / "mine.py").write_text(SOUND.replace(begin, f"{slow}; time.sleep(0.05); {begin}"))
    runs.corpus = write_data(tmp_path / "data")
    command = runs.finish(
        "run", "--task", str(tmp_path / "mine.py"), "--max-steps", "40", "--cache", "off",
        "--validate-every", "0", "--checkpoint-every", "0",
    )  # fmt: skip
    assert re.search(f"🧭 Waiting for: {cause} ", command.text), command.text


def test_what_was_trained_is_used_as_the_page_shows(classified, tmp_path):
    """With docs/own-model.md's own lines, of the pictures that the classifier has learned."""
    (example,) = (code for code in blocks(OWN_MODEL, "python") if "trained_model(" in code)
    (tmp_path / "use.py").write_text(example, "utf-8")
    (tmp_path / "examples").symlink_to(CLASSIFIER.parent)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "pictures").symlink_to(classified.folder / "run")
    pictures = sorted(map(str, classified.corpus.glob("*/*.png")))[::4]
    said = subprocess.run(
        [sys.executable, "use.py", *pictures], cwd=tmp_path, capture_output=True, text=True,
        timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    told = [line.split() for line in said.stdout.splitlines()]
    assert [path for path, _ in told] == pictures
    right = sum(Path(path).parent.name == kind for path, kind in told)
    assert right > 0.7 * len(pictures), f"{right} of {len(pictures)}"


@pytest.mark.long
def test_the_other_classifier_of_the_page_learns_its_sounds(checkout):
    (task,) = (code for code in blocks(OWN_MODEL, "python") if 'unit = "sounds"' in code)
    (checkout.folder / "sounds.py").write_text(task, "utf-8")
    random = np.random.default_rng(0)
    for number in range(40):
        time_s = np.arange(int(16_000 * random.uniform(0.3, 1.0))) / 16_000
        for name, low_hz in (("low", 100), ("high", 1500)):
            (checkout.folder / "sounds" / name).mkdir(parents=True, exist_ok=True)
            sound = 0.3 * np.sin(2 * np.pi * random.uniform(low_hz, 2 * low_hz) * time_s)
            soundfile.write(checkout.folder / "sounds" / name / f"{number}.wav", sound, 16_000)
    soundfile.write(checkout.folder / "sounds" / "low" / "odd.wav", np.zeros(8_000), 8_000)
    words = [
        "python", "launcher.py", "--task", "sounds.py", "--train-data", "sounds", "--run-dir",
        "runs/sounds", "--batch-size", "8", "--max-steps", "40", "--log-every", "1", "--no-report",
        "--max-bad-fraction", "0.05",
    ]  # fmt: skip
    command = checkout.documented(words)
    assert command.wait() == 0, command.text + checkout.logs("runs/sounds")
    assert "8000 Hz; expected 16000" in command.text
    losses = [r["loss"] for r in checkout.metrics("runs/sounds") if "loss" in r]
    assert np.mean(losses[-5:]) < 0.3 * losses[0]
