"""Every command that the README and docs/ give is run: here, beside what tests it, or not at all.

Long ones get a short budget, and every model is tiny. Commands with the same flags are run once.
"""

import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from shared.plan.index import Index

ROOT = Path(__file__).resolve().parents[2]

from documents import (
    PAGES,
    blocks,
    command_lines,
    command_of,
    documented,
    the_documented,
    words_of,
)

# Where each command is run. `train` is run in most of these files; all its flags are tried here.
RUN_IN = {
    "train": "test_documented_commands.py",
    "make demo": "test_documented_commands.py",
    "examples/make_pictures.py": "test_documented_commands.py",
    "examples/cut_recording.py": "test_first_voice.py",
    "examples": "test_installed.py",
    "check-data": "test_documented_commands.py",  # with --html in test_pages.py
    "report": "test_documented_commands.py",
    "tensorboard.main": "test_documented_commands.py",
    "completion": "test_documented_commands.py",
    "speak": "test_speak_command.py",
    "export": "test_speak_command.py",
    "serve": "test_serve_command.py",
    "validate": "test_validate_command.py",
    "bench": "test_bench_command.py",
    "keys": "test_same_stream.py",
    "runs": "test_watching.py",
    "watch": "test_watching.py",
    "stop": "test_watching.py",
    "model_worker": "test_same_stream.py",
    "data_worker": "test_same_stream.py",
    "benchmarks/checkpoint_damage.py": "test_documented_benchmarks.py",
    "benchmarks/fuzz.py": "test_documented_benchmarks.py",
    "benchmarks/hostile_peers.py": "test_documented_benchmarks.py",
    "benchmarks/bad_inputs.py": "test_documented_benchmarks.py",
}
_LONG = "trains for a minute and more, however little it is told to do; {} is its short version"
NOT_RUN = {
    "pip": "fetches gigabytes from the network; the long tests of test_installed.py install with it",
    "make setup": "has made the environment that this test runs in",
    "make test": "is what runs this test",
    "make bench": "takes an hour; test_documents.py tries the flags that it is given",
    "benchmarks/faults.py data": _LONG.format("test_faults.py"),
    "benchmarks/faults.py model": _LONG.format("test_faults.py"),
    "benchmarks/faults.py both": _LONG.format("test_faults.py"),
    "benchmarks/faults.py mixed": _LONG.format("test_faults.py"),
    "benchmarks/faults.py corrupt": _LONG.format("test_faults.py"),
    "benchmarks/faults.py spare": _LONG.format("test_same_stream.py"),
    "benchmarks/faults.py stops": _LONG.format("test_same_stream.py"),
    "benchmarks/faults.py full-disk": "mounts a filesystem, which not every machine allows",
    "benchmarks/damaged_corpus.py": _LONG.format("test_same_stream.py"),
    "benchmarks/recordings_needed.py": "trains three voices; test_documents.py tries its flags",
    "benchmarks/small_data.py": "trains a voice for each budget; test_documents.py tries its flags",
    "benchmarks/reading.py": "test_reading.py asks the same of its sentences in one process",
    "benchmarks/flat_memory.py": "needs hundreds of steps to say anything of memory",
    "benchmarks/fuzz_atheris.py": "needs atheris, which requirements.lock does not have",
}
# A word that only this example has, and the file that runs it.
EXAMPLES_RUN_IN = {
    "launcher.run(": "../test_documents.py",
    "saved_model.load(": "test_speak_command.py",
    "load_file(": "test_documented_commands.py",
    'unit = "clips"': "conftest.py",
    "trained_model(": "test_own_task.py",
    'unit = "sounds"': "test_own_task.py",
}
# These are run to their end: below, by hand in test_same_stream.py, and in test_small_data.py.
TRAINED = (("--init-from",), ("--prepare-only",), ("--run-dir", "--max-minutes"))
TINY = ("--model-size", "tiny", "--max-steps", "2", "--samples", "0", "--no-report")


def test_every_documented_command_is_run_or_is_said_not_to_be():
    commands = {command_of(words_of(line)) for _, line in command_lines()}
    assert commands == {*RUN_IN, *NOT_RUN}
    for command, file in RUN_IN.items():
        source = Path(__file__).with_name(file).read_text(encoding="utf-8")
        assert f'documented("{command}"' in source, (command, file)
    for file in re.findall(r"test_\w+\.py", " ".join(NOT_RUN.values())):
        assert list((ROOT / "tests").rglob(file)), file


def test_every_documented_example_in_python_is_run():
    examples = [code for page in PAGES for code in blocks(page, "python")]
    for example in examples:
        (word,) = [word for word in EXAMPLES_RUN_IN if word in example]
        source = (Path(__file__).parent / EXAMPLES_RUN_IN[word]).read_text(encoding="utf-8")
        assert word.rstrip("(") in source


@pytest.fixture
def trained(checkout, undisturbed):
    """The same, with a trained run in runs/mine."""
    (checkout.folder / "runs").mkdir()
    (checkout.folder / "runs" / "mine").symlink_to(undisturbed.folder / "run")
    return checkout


def test_every_way_to_train_is_prepared(checkout):
    shutil.copytree(checkout.corpus, checkout.folder / "my-voice-eval")
    (pictures,) = documented("examples/make_pictures.py")
    assert checkout.documented(pictures, "8").wait() == 0
    trained, commands = [the_documented("train", *flags) for flags in TRAINED], {}
    for number, words in enumerate(documented("train")):
        if words not in trained and "--train-data" in words:
            # Side by side: each with a run directory of its own, and as many GPUs as any names.
            more = ("--run-dir", f"runs/{number}", "--prepare-only")
            commands[number] = checkout.documented(words, *more, TANDEM_FAKE_GPUS="3")
    assert len(commands) > 5
    for number, command in commands.items():
        assert command.wait() == 0, command.text
        assert f"✅ Prepared runs/{number}" in command.text
        assert (checkout.folder / "runs" / str(number) / "index.safetensors").is_file()


def test_a_run_goes_on_with_nothing_but_its_directory(trained):
    (words,) = [words for words in documented("train") if "--train-data" not in words]
    mine = trained.folder / "runs" / "mine"
    whole = mine.resolve()
    mine.unlink()
    shutil.copytree(whole, mine)
    command = trained.documented(words)
    assert command.wait() == 0, command.text
    assert "steps are trained already" in command.text


def test_the_configuration_for_two_gpus_trains_in_16_bits_where_that_is_asked_for(checkout):
    words = the_documented("train", "configs/two-gpus.toml")
    command = checkout.documented(words, *TINY, "--precision", "bfloat16")
    assert command.wait() == 0, command.text
    (run,) = (checkout.folder / "runs").iterdir()  # named by the time
    assert re.fullmatch(r"\d{8}-\d{6}", run.name)
    assert 'precision = "bfloat16"' in (run / "config.toml").read_text()
    records = checkout.metrics(f"runs/{run.name}")
    assert records[-1]["step"] == 2 and records[-1]["val_loss"] > 0


def test_a_new_voice_begins_with_the_weights_of_another(trained):
    voice = trained.folder / "new-voice"
    shutil.copytree(trained.corpus, voice)
    rows = (voice / "metadata.csv").read_text("utf-8").splitlines()[:12]
    rows = [re.sub(r"\|\w+\|(.*)", r"|zoe|\1 I see: yes…", row) for row in rows]
    (voice / "metadata.csv").write_text("\n".join(rows) + "\n", "utf-8")
    words = the_documented("train", "--init-from")
    # A rate at which nothing is learned: what it ends with is what it began with.
    command = trained.documented(words, *TINY, "--learning-rate", "1e-9")
    assert command.wait() == 0, command.text + trained.logs("runs/new")
    said = re.search(r"🌱 Beginning with the weights of \S+ \(step (\d+)\)", command.text)
    assert said is not None, command.text
    assert "Not in it, so learned from scratch: 2 symbols (: …)" in command.text
    mine, new = trained.folder / "runs" / "mine", trained.folder / "runs" / "new"
    (other,) = (mine / "checkpoints").glob(f"step-*{int(said[1])}")
    (last,) = (new / "checkpoints").glob("step-*2")
    given, found = load_file(other / "ema.safetensors"), load_file(last / "weights.safetensors")
    assert given.keys() == found.keys()
    for name in given:
        if name.endswith(".embeddings"):  # a row for each symbol, wherever it is in its table
            before, after = (Index.load(r / "index.safetensors").symbol_table for r in (mine, new))
            both = [symbol for symbol in before if symbol in after]
            given[name] = given[name][[before.index(symbol) for symbol in both]]
            found[name] = found[name][[after.index(symbol) for symbol in both]]
        assert abs(given[name] - found[name]).max() < 1e-6, name


def test_the_demo_ends_by_the_clock_with_a_validated_voice_that_speaks(checkout, undisturbed):
    assert the_documented("make demo")
    recipe = re.search(
        r"^demo:.*\n\t\.venv/bin/(.*)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert recipe is not None
    (checkout.folder / "demo").mkdir()
    (checkout.folder / "demo" / "corpus").symlink_to(checkout.corpus)
    began_s = (undisturbed.folder / "run" / "config.toml").stat().st_mtime
    start_up_s = undisturbed.metrics("run")[0]["time"] - began_s
    # Room for a slower start, for the time kept to save and validate, and for some steps.
    minutes = (1.5 * start_up_s + 8) / 60
    command = checkout.documented(recipe[1].split(), "--minutes", f"{minutes:.3f}")
    assert command.wait() == 0, command.text + checkout.logs("demo/run")
    assert "🎧 Listen to demo/run/demo.wav" in command.text
    run = checkout.folder / "demo" / "run"
    assert (run / "demo.wav").stat().st_size > 10_000 and (run / "report.html").is_file()
    last = max(int(path.name.split("-")[1]) for path in (run / "checkpoints").glob("step-*"))
    validated = [r["step"] for r in checkout.metrics("demo/run") if "val_loss" in r]
    assert validated[-1] == last > 0
    assert (run / "samples" / f"step-{last:06d}").is_dir()


def test_the_data_can_be_checked_in_words_and_in_json(checkout):
    # With --gpu-memory, which traces four models, in test_device_report.py.
    elsewhere = {"--html", "--gpu-memory"}
    commands = [words for words in documented("check-data") if not elsewhere & set(words)]
    started = [checkout.documented(words) for words in commands]
    for words, command in zip(commands, started, strict=True):
        assert command.wait() == 0, command.text
        wanted = '"problems": []' if "--json" in words else "40 rows can be used"
        assert wanted in command.text


def test_a_report_is_written_again_and_a_checkpoint_is_read_as_documented(trained):
    report = trained.folder / "runs" / "mine" / "report.html"
    before = report.stat().st_mtime_ns
    assert trained.documented(the_documented("report")).wait() == 0
    assert report.stat().st_mtime_ns > before
    (example,) = [code for page in PAGES for code in blocks(page, "python") if "load_file(" in code]
    command = trained.python("-c", example.replace("runs/NAME", str(report.parent)))
    assert command.wait() == 0, command.text
    assert re.findall(r"^(\w+)\.safetensors \d+ \d+$", command.text, re.MULTILINE) == [
        "ema", "first_moments", "second_moments", "weights",
    ]  # fmt: skip


def test_tensorboard_shows_the_runs(trained):
    shown = trained.folder / "tensorboard"  # its own walk does not follow links
    shown.mkdir()
    shutil.copytree(trained.folder / "runs/mine/tensorboard", shown / "runs/mine/tensorboard")
    words = the_documented("tensorboard.main")
    at = words.index("--logdir") + 1
    words = [*words[:at], str(shown / words[at]), *words[at + 1 :]]
    command = trained.documented(words, "--port", "0", "--load_fast", "false")
    command.wait_for_text("(Press CTRL+C to quit)")
    found = re.search(r"http://\S+:\d+", command.text)
    assert found is not None, command.text
    address = found[0]
    with urllib.request.urlopen(address, timeout=60) as page:
        assert page.status == 200 and b"TensorBoard" in page.read()

    def runs_shown() -> bool:
        with urllib.request.urlopen(f"{address}/data/runs", timeout=60) as answer:
            return b"mine/tensorboard" in answer.read()

    trained.wait_until(runs_shown, "the run in TensorBoard")
    command.process.terminate()
    command.wait()


def test_every_shell_is_given_its_completion(checkout):
    commands = documented("completion")
    started = [checkout.documented(words) for words in commands]
    for words, command in zip(commands, started, strict=True):
        assert command.wait() == 0 and "tandem" in command.text, words
    (line,) = [line for _, line in command_lines() if "completion bash" in line]
    program = f'tandem() {{ "{sys.executable}" launcher.py "$@"; }}\n{line}\ncomplete -p tandem\n'
    done = subprocess.run(
        ["bash", "--norc", "-c", program], cwd=checkout.folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("_tandem tandem")
