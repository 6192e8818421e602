"""`launcher.py speak` and `launcher.py export`, from a run that was really trained."""

import re
import shutil
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]

from documents import blocks, documented, the_documented

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


@pytest.fixture
def trained(checkout, run, vocoder):
    """A checkout with that run in runs/mine, a vocoder, a recording and lines to speak."""
    (checkout.folder / "runs").mkdir()
    (checkout.folder / "runs" / "mine").symlink_to(run)
    (checkout.folder / "runs" / "vocoder").symlink_to(vocoder.folder / "run")
    shutil.copy(checkout.corpus / "wavs" / "demo-0003.wav", checkout.folder / "clip.wav")
    lines = "One red boat.\n\n…\nTwo ☃ red boats.\n"
    (checkout.folder / "lines.txt").write_text(lines, "utf-8")
    (checkout.folder / "words.txt").write_text("red\t[[ɹˈɛd]]\n", "utf-8")
    return checkout


def test_every_documented_way_speaks(trained):
    """Text becomes a wav and a mel of the same length, and each line of a file a wav."""
    ways = {}
    for number, words in enumerate(documented("speak")):
        flags = frozenset(word for word in words if word.startswith("--"))
        flags -= {"--run", "--text", "--out"}
        own = ("--text", TEXT, "--out", f"new/{number}.wav", "--mel", f"new/{number}.npy")
        more = () if "--out-dir" in flags else own
        ways[flags] = number, trained.documented(words, *more)
    lengths = {}
    for flags, (number, command) in ways.items():
        assert command.wait() == 0, command.text
        by = "vocoder" if "--vocoder" in flags else "Griffin-Lim"
        assert re.search(rf"s of speech in .* \(real-time factor [\d.]+, {by};", command.text)
        if "--out-dir" in flags:
            continue
        mel = np.load(trained.folder / "new" / f"{number}.npy")
        assert mel.dtype == np.float32 and mel.shape[0] == 80
        lengths[flags] = num_samples(trained.folder / "new" / f"{number}.wav")
        assert lengths[flags] == mel.shape[1] * 256
    assert len(list((trained.folder / "new").iterdir())) == 2 * len(lengths)
    assert lengths[frozenset({"--speed", "--pitch"})] < 0.9 * lengths[frozenset()]
    _, command = ways[frozenset({"--text-file", "--out-dir"})]
    spoken = sorted((trained.folder / "wavs").iterdir())
    assert [path.name for path in spoken] == ["0001.wav", "0004.wav"]
    assert "Line 3 has nothing that can be spoken" in command.text
    assert num_samples(spoken[0]) > 0
    warned = [line for line in command.text.splitlines() if "☃" in line]
    assert len(warned) <= 1  # espeak-ng may well read a snowman aloud


def test_tags_are_heard_in_the_wav(trained):
    """All in one go: a line for each, of the same words."""
    lines = [
        "The old horse slept. Nobody saw it.",
        'The old horse slept. <break time="2s"/> Nobody saw it.',
        '<prosody rate="50%">The old horse slept. Nobody saw it.</prosody>',
    ]
    (trained.folder / "lines.txt").write_text("\n".join(lines), "utf-8")
    line = "python launcher.py speak --run runs/mine --text-file lines.txt --out-dir tags"
    command = trained.documented(line.split(), "--vocoder", "griffin-lim")
    assert command.wait() == 0, command.text
    plain, with_break, slow = (
        num_samples(trained.folder / "tags" / f"{n:04d}.wav") / 22_050 for n in (1, 2, 3)
    )
    assert with_break - plain == pytest.approx(2 - 0.25, abs=0.02)  # the pause that was there
    assert slow == pytest.approx(2 * (plain - 0.25) + 0.25, rel=0.02)


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
        (["--text", "<emphasis>hi", "--out", "a.wav"], "<emphasis> is never closed"),
        (["--text", "hi", "--out", "a.wav", "--lexicon", "gone.txt"], "gone.txt: can't be read"),
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


def test_an_exported_voice_speaks_as_its_readme_and_ours_say(trained):
    words, folder = the_documented("export"), trained.folder
    command = trained.documented(words)
    assert command.wait() == 0, command.text
    readme = (folder / "voice" / "README.md").read_text("utf-8")
    example = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert example is not None, readme
    ours = [
        code
        for code in blocks(ROOT / "docs" / "speaking.md", "python")
        if "saved_model.load" in code
    ]
    program = "\n".join([example[1], *ours, 'print(spoken["waveform"].shape)'])
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert num_samples(folder / "out.wav") > 0
    assert re.fullmatch(r"\(1, \d{4,}\)\n", done.stdout)
    command = trained.documented(words)
    assert command.wait() == 2 and "already holds something" in command.text
