"""`launcher.py speak` and `launcher.py export`, from a run that was really trained."""

import re
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

TEXT = "The old horse slept by the river. Nobody saw it at 3.15 p.m. on Sunday."


@pytest.fixture(scope="module")
def run(undisturbed) -> str:
    return str(undisturbed.folder / "run")


def speak(runs, run: str, *flags: str):
    command = runs.python("launcher.py", "speak", "--run", run, *flags)
    command.wait()
    return command


def num_samples(path) -> int:
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 22_050)
        return file.getnframes()


def test_text_becomes_a_wav_and_a_mel_of_the_same_length(runs, run, tmp_path):
    flags = ("--text", TEXT, "--mel", str(tmp_path / "a.npy"), "--speaker", "anna")
    command = speak(runs, run, *flags, "--out", str(tmp_path / "new" / "a.wav"))
    assert command.process.returncode == 0, command.text
    assert re.search(r"s of speech in .* \(real-time factor [\d.]+, Griffin-Lim;", command.text)
    mel = np.load(tmp_path / "a.npy")
    assert mel.dtype == np.float32 and mel.shape[0] == 80
    assert num_samples(tmp_path / "new" / "a.wav") == mel.shape[1] * 256
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["a.npy", "a.wav"]


def test_each_line_of_a_file_becomes_a_wav_of_its_number(runs, run, small_corpus, tmp_path):
    (tmp_path / "lines.txt").write_text("One red boat.\n\n…\nTwo ☃ red boats.\n", "utf-8")
    recording = str(small_corpus / "wavs" / "demo-0003.wav")
    flags = ("--text-file", str(tmp_path / "lines.txt"), "--out-dir", str(tmp_path / "out"))
    command = speak(runs, run, *flags, "--reference", recording, "--speed", "0.8")
    assert command.process.returncode == 0, command.text
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0001.wav", "0004.wav"]
    assert "Line 3 has nothing that can be spoken" in command.text
    assert num_samples(tmp_path / "out" / "0001.wav") > 0
    warned = [line for line in command.text.splitlines() if "☃" in line]
    assert len(warned) <= 1  # espeak-ng may well read a snowman aloud


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--text", "hi"], "where the speech goes"),
        (["--text", " ", "--out", "a.wav"], "--text is empty"),
        (["--out", "a.wav"], "either --text or --text-file"),
        (["--text", "hi", "--out", "a.wav", "--speed", "9"], "--speed 9: expected 0.25 to 4"),
        (["--text", "hi", "--out", "a.wav", "--speed", "nan"], "expected 0.25 to 4"),
        (["--text", "hi", "--out", "a.wav", "--pitch", "99"], "--pitch 99: expected -12 to 12"),
        (["--text", "hi", "--out", "a.wav", "--speaker", "ana"], "Did you mean anna?"),
        (["--text", "hi", "--out", "a.wav", "--reference", "setup.cfg"], "is not audio"),
        (["--text", "hi", "--out", "a.wav", "--vocoder", "tests"], "is not a SavedModel"),
        (["--text", "hi", "--out-dir", "d"], "none was given"),
        (["--text-file", "gone.txt", "--out", "a.wav"], "gone.txt: can't be read"),
        (["--text", "…", "--out", "a.wav"], "nothing in it that can be spoken"),
        (["--text", "hi", "--out", "/proc/none/a.wav"], "can't be made"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(runs, run, flags, words):
    command = speak(runs, run, *flags)
    assert command.process.returncode == 2, command.text
    assert words in command.text and "Traceback" not in command.text
    assert len(command.text.strip().splitlines()) == 1


def test_a_run_without_a_checkpoint_or_without_its_data_says_so(runs, run, tmp_path):
    for name in ("config.toml", "index.safetensors"):
        (tmp_path / name).write_bytes((Path(run) / name).read_bytes())
    flags = ("--text", "hi", "--out", str(tmp_path / "a.wav"))
    command = speak(runs, str(tmp_path), *flags)
    assert command.process.returncode == 2 and "has no checkpoint to speak with" in command.text
    config = (tmp_path / "config.toml").read_text()
    config = re.sub(r"train_data = .*", 'train_data = "/gone"', config)
    (tmp_path / "config.toml").write_text(config)
    command = speak(runs, str(tmp_path), *flags)
    assert command.process.returncode == 2 and "Give a recording of the voice" in command.text


def test_validation_leaves_samples_and_tensorboard_files(run):
    folder = Path(run)
    for step in ("step-000006", "step-000012", "step-000014"):
        found = sorted(path.name for path in (folder / "samples" / step).iterdir())
        assert found in (["0.png", "0.wav"], ["0.png", "0.wav", "1.png", "1.wav"])
    assert any((folder / "tensorboard").iterdir())


def test_an_exported_voice_follows_its_own_readme(runs, run, tmp_path):
    command = runs.python("launcher.py", "export", "--run", run, "--out", str(tmp_path / "voice"))
    assert command.wait() == 0, command.text
    readme = (tmp_path / "voice" / "README.md").read_text("utf-8")
    example = re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]
    done = subprocess.run(
        [sys.executable, "-I", "-c", example], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert num_samples(tmp_path / "out.wav") > 0
    command = runs.python("launcher.py", "export", "--run", run, "--out", str(tmp_path / "voice"))
    assert command.wait() == 2 and "already holds something" in command.text
