"""`launcher.py export --format onnx` and `launcher.py serve`, from runs that were really trained."""

import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import soundfile
from documents import documented, the_documented
from page_look import LOOK, assert_readable

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def voice(tmp_path_factory, undisturbed, vocoder) -> Path:
    """A run with a vocoder of its own that is taken for better than Griffin-Lim."""
    folder = tmp_path_factory.mktemp("s") / "mine"
    shutil.copytree(undisturbed.folder / "run", folder)
    shutil.copytree(vocoder.folder / "run", folder / "vocoder")
    judged = folder / "vocoder" / "samples" / "judged.json"
    judged.write_text(json.dumps(json.loads(judged.read_text()) | {"griffin_lim": 99.0}))
    return folder


@pytest.fixture(scope="module")
def served(undisturbed, voice):
    """The command that serves it, for the first time, and where it does."""
    command = undisturbed.python("launcher.py", "serve", "--run", str(voice), "--port", "0")
    yield command, link_of(command)
    command.signal(signal.SIGINT)
    assert command.wait() == 0


@pytest.fixture
def at_home(checkout, voice):
    """A checkout with that run in runs/mine."""
    (checkout.folder / "runs").mkdir()
    (checkout.folder / "runs" / "mine").symlink_to(voice)
    return checkout


def link_of(command) -> str:
    command.wait_for_text("to start)")
    found = re.search(r"http://[\d.]+:\d+", command.text)
    assert found is not None
    return found[0]


def ask(link: str, path: str, body: dict | None = None) -> bytes:
    request = urllib.request.Request(
        link + path, json.dumps(body).encode() if body else None,
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def test_what_is_exported_is_held_against_tensorflow_and_speaks_as_its_readme_says(
    served, voice, tmp_path
):
    command, _ = served
    (folder,) = (voice / "onnx").iterdir()
    for name in ("voice", "text-to-mel", "reference-encoder", "vocoder"):
        told = re.search(
            rf"{name}\.onnx: opset 15, ([\d.]+) MB; .* differ by ([\d.e-]+)", command.text
        )
        assert told, command.text
        size = (folder / f"{name}.onnx").stat().st_size
        assert float(told[1]) == pytest.approx(size / 1e6, abs=0.06)
        assert float(told[2]) <= 1e-3
    config = json.loads((folder / "voice.onnx.json").read_text("utf-8"))
    assert config["audio"]["sample_rate"] == 22_050 and config["phoneme_id_map"]["^"] == [1]
    readme = (folder / "README.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (tmp_path / folder.name).symlink_to(folder)
    done = subprocess.run(
        [sys.executable, "-I", "-c", example + "\nimport sys; assert 'tensorflow' not in sys.modules"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(soundfile.read(tmp_path / "out.wav")[0]) > 0


def test_it_is_served_without_tensorflow(served):
    command, link = served
    assert "is exported to" in command.text
    assert "tensorflow" not in Path(f"/proc/{command.pid}/maps").read_text()
    children = [pid for pid in os.listdir("/proc") if pid.isdecimal()]
    assert command.pid not in map(_parent, children)
    asked = {"input": "One red boat.", "response_format": "wav"}
    spoken, _ = soundfile.read(io.BytesIO(ask(link, "/v1/audio/speech", asked)))
    assert len(spoken) > 2000 and np.abs(spoken).max() > 1e-3


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_what_was_exported_is_kept_and_can_be_served_alone(served, at_home, voice):
    again = at_home.documented(the_documented("serve"), "--port", "0")
    assert json.loads(ask(link_of(again), "/v1/voices"))["voices"]
    assert "is exported" not in again.text
    again.signal(signal.SIGTERM)
    assert again.wait() == 0 and "The server has ended" in again.text
    (kept,) = (voice / "onnx").iterdir()
    elsewhere = at_home.folder / "elsewhere"
    shutil.copytree(kept, elsewhere)
    alone = at_home.python("launcher.py", "serve", "--run", str(elsewhere), "--port", "0")
    assert json.loads(ask(link_of(alone), "/health"))["status"] == "ok"
    port = link_of(alone).rpartition(":")[2]
    second = at_home.python("launcher.py", "serve", "--run", str(elsewhere), "--port", port)
    assert second.wait() == 2 and "nothing can be served there" in second.text


UNTIL = """(async () => {
  for (let n = 0; n < 600; n++) {
    if (%s) return true;
    await new Promise(done => setTimeout(done, 100));
  }
  return document.body.innerText;
})()"""
SPEAK = "document.getElementById('text').value = %r; document.getElementById('speak').click()"
TOLD = "document.getElementById('told').textContent.includes(%r)"
VOICES = "document.getElementById('voice').options.length > 1"


def test_what_is_typed_into_the_page_is_spoken_heard_again_and_stopped(chromium, served):
    """With TANDEM_SCREENSHOTS naming a folder, pictures of it are left there."""
    _, link = served
    chromium.open("about:blank", 400, "light")
    chromium.complaints.clear()
    for scheme, width in (("light", 400), ("dark", 1200)):
        chromium.open(link, width, scheme)
        assert chromium.evaluate(UNTIL % VOICES) is True
        chromium.evaluate(SPEAK % "One red boat. Two red boats.")
        assert chromium.evaluate(UNTIL % (TOLD % "s of speech; first sound after")) is True
        assert_readable(chromium.evaluate(LOOK), scheme)
        if folder := os.environ.get("TANDEM_SCREENSHOTS"):
            chromium.photograph(Path(folder) / f"serve-{scheme}-{width}.png")
    assert chromium.evaluate(UNTIL % "document.getElementById('again').duration > 0.2") is True
    chromium.evaluate(SPEAK % ("Red boats. " * 2000))
    assert chromium.evaluate(UNTIL % (TOLD % "Speaking")) is True
    chromium.evaluate("document.getElementById('stop').click()")
    assert chromium.evaluate(UNTIL % "!document.getElementById('speak').disabled") is True
    chromium.evaluate(SPEAK % "...")
    assert chromium.evaluate(UNTIL % (TOLD % "nothing in it")) is True
    wrong = [each for each in chromium.complaints if "400 (Bad Request)" not in each]
    assert wrong == []


def test_a_page_that_needs_the_token_asks_for_it(chromium, served, voice, runs):
    command = runs.python(
        "launcher.py", "serve", "--run", str(voice), "--port", "0", TANDEM_TOKEN="secret"
    )
    chromium.open(link_of(command), 1200, "light")
    assert chromium.evaluate(UNTIL % (TOLD % "wants its token")) is True
    chromium.evaluate(
        "document.getElementById('token').value = 'secret';"
        "document.getElementById('token').dispatchEvent(new Event('change'))"
    )
    assert chromium.evaluate(UNTIL % VOICES) is True
    chromium.evaluate(SPEAK % "One red boat.")
    assert chromium.evaluate(UNTIL % (TOLD % "s of speech")) is True


def test_a_voice_without_a_vocoder_is_told_what_to_train(runs, undisturbed):
    for command, flags in (("export", ("--format", "onnx", "--out", "new")), ("serve", ())):
        run = str(undisturbed.folder / "run")
        found = runs.python("launcher.py", command, "--run", run, *flags)
        assert found.wait() == 2
        assert (
            "has no vocoder, and ONNX has no Griffin-Lim. Train one with" in found.text
            and "Traceback" not in found.text
        )
    assert not (ROOT / "new").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["export", "--run", "x", "--out", "y", "--quantise"], "give --format onnx with it"),
        (["serve", "--run", "tests"], "tests: is no run directory"),
        (["serve", "--run", "x", "--port", "99999"], "--port 99999: expected 0 to 65535"),
        (["serve", "--run", "x", "--max-requests", "0"], "expected 1 or more"),
        (["serve", "--run", "x", "--lexicon", "gone.txt"], "gone.txt: can't be read"),
        (["serve", "--run", "x", "--host", "0.0.0.0"], "Give a token that they have to know"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(runs, flags, words):
    command = runs.python("launcher.py", *flags)
    assert command.wait() == 2 and words in command.text
    assert len(command.text.strip().splitlines()) == 1


@pytest.mark.long
def test_the_stock_piper_speaks_an_exported_voice(at_home):
    """With its own espeak-ng and its own way of asking: the command of the README, and each speaker."""
    if importlib.util.find_spec("piper") is None:
        pytest.skip("piper-tts is not installed here: python -m pip install piper-tts")
    for words in documented("export", "onnx"):
        command = at_home.documented(words)
        assert command.wait() == 0, command.text
        folder = at_home.folder / words[words.index("--out") + 1]
        config = json.loads((folder / "voice.onnx.json").read_text("utf-8"))
        readme = (folder / "README.md").read_text("utf-8")
        (line,) = re.findall(r"^python -m piper .*$", readme, re.MULTILINE)
        found = {}
        for speaker in range(config["num_speakers"]):
            said = subprocess.run(
                [sys.executable, "-I", *shlex.split(line)[1:], "--speaker", str(speaker)],
                cwd=folder, capture_output=True, text=True,
            )  # fmt: skip
            assert said.returncode == 0, said.stderr
            found[speaker], rate = soundfile.read(folder / "out.wav")
            assert rate == 22_050 and len(found[speaker]) > 2000
        assert len({samples.tobytes() for samples in found.values()}) == len(found) > 1
