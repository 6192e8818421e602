"""The container files' own commands, in a new Debian system instead of podman's: all long."""

import re
import shlex
import shutil
import signal
from fnmatch import fnmatch
from pathlib import Path

import psutil
import pytest
from debian_system import DebianSystem, mirror_of, why_not

ROOT = Path(__file__).resolve().parents[2]
FILES = ("Containerfile", "Containerfile.cpu")


def instructions(file: str) -> list[tuple[str, str]]:
    """Name and rest of each, in order, a continued one as one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / file).read_text("utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(name, rest) for name, rest in (line.split(" ", 1) for line in lines if line.strip())]


def environment_of(file: str) -> dict[str, str]:
    words = [
        word for name, rest in instructions(file) if name == "ENV" for word in shlex.split(rest)
    ]
    return dict(word.split("=", 1) for word in words)


def copied(out: Path) -> None:
    """What a build gets of the checkout: what .dockerignore lets through."""
    kept = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    for path in ROOT.iterdir():
        if any(fnmatch(path.name, pattern) for pattern in kept):
            if path.is_dir():
                shutil.copytree(path, out / path.name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                out.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, out)


@pytest.mark.parametrize("file", FILES)
def test_it_begins_and_ends_as_it_should(file):
    names = [name for name, _ in instructions(file)]
    assert names[0] == "FROM" and names[-1] == "ENTRYPOINT"
    assert set(names) == {"FROM", "RUN", "COPY", "ENV", "WORKDIR", "ENTRYPOINT"}
    assert dict(instructions(file))["ENTRYPOINT"] == '["tandem"]'
    assert environment_of(file)["TANDEM_CACHE"] == "/voices/.tandem"


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """The system of Containerfile.cpu, built."""
    if why := why_not():
        pytest.skip(why)
    steps = instructions("Containerfile.cpu")
    suite = re.fullmatch(r"debian:(\w+)-slim", dict(steps)["FROM"])
    assert suite is not None
    if not (mirror := mirror_of(suite[1])):
        pytest.skip(f"this machine gets no Debian {suite[1]} from anywhere")
    system = DebianSystem(tmp_path_factory.mktemp("debian"), suite[1], mirror)
    for name, rest in steps:
        if name == "RUN":
            system.run(["/bin/sh", "-c", rest], {})
        elif name == "COPY":
            assert rest.split()[0] == "."
            copied(system.root / rest.split()[1].lstrip("/"))
    yield system
    shutil.rmtree(system.root, ignore_errors=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_demo_trains_and_speaks_in_it_for_a_user_without_a_home(system):
    environment = environment_of("Containerfile.cpu")
    voices = system.root / "voices"
    voices.mkdir(exist_ok=True)
    shutil.chown(voices, 1234, 1234)
    words = ["tandem", "demo", "--minutes", "0.6"]
    said = system.run(words, environment, "/voices", user="1234:1234")
    assert "Listen to demo/run/demo.wav" in said and "Warning" not in said, said
    assert (voices / "demo" / "run" / "demo.wav").stat().st_size > 10_000
    assert list((voices / ".tandem").iterdir()), "the cache of indexes is not where it should be"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_it_saves_and_ends_when_its_container_is_stopped(system):
    """It is process 1 there, to which no signal comes that it does not handle."""
    environment = environment_of("Containerfile.cpu")
    (system.root / "voices").mkdir(exist_ok=True)
    make = "/opt/tandem/bin/python -m data_worker.speech.demo.corpus --out corpus --num 40"
    system.run(shlex.split(make), environment, "/voices")
    words = "tandem --train-data corpus --run-dir runs/mine --config laptop --log-every 1"
    container = system.start(shlex.split(words), environment, "/voices")
    for line in container.stdout:
        if "step" in line and "loss" in line:
            break
    (first,) = psutil.Process(container.pid).children()
    first.send_signal(signal.SIGTERM)
    said, _ = container.communicate(timeout=120)
    assert container.returncode == 130, said
    assert list((system.root / "voices" / "runs" / "mine" / "checkpoints").glob("step-*"))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_versions_for_gpus_fit_the_others(system):
    """Of the file for GPUs, only what pip would install is asked for: gigabytes."""
    steps, cpu = instructions("Containerfile"), instructions("Containerfile.cpu")
    assert [step for step in steps if step[0] != "ENV"][:3] == cpu[:3]
    (install,) = [rest for name, rest in steps if name == "RUN" and "pip install" in rest]
    pip = install.split("&& ")[-1].replace(
        "pip install", "pip install --dry-run --ignore-installed"
    )
    said = system.run(["/bin/sh", "-c", pip], {})
    assert "Would install" in said and "nvidia-cudnn-cu12" in said and "tensorflow-2" in said
