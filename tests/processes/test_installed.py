"""The program without its checkout: built, installed by pip, and used from an empty folder."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
from documents import documented

# Of the checkout's own folder; below it, there is a demo that belongs to the program.
NOT_SOURCE = (".git", ".venv*", "runs", "demo", "build", "dist", ".*_cache", "*.egg-info")
BUILD = (
    "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
)
# Names that the program's own modules and packages have, in the folder that it is called from.
IN_THE_WAY = ("shared/__init__.py", "data_worker.py", "model_worker.py", "launcher.py", "numpy.py")


def run(*command: object, cwd: Path, deadline_s: float = 240, **environment: str) -> str:
    """What a command says, which must end well. Nothing leads it to the checkout."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TANDEM_", "PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**inherited, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=deadline_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def built(kind: str, source: Path, out: Path) -> Path:
    """A wheel or a source distribution of a folder of sources."""
    out.mkdir()
    run(sys.executable, "-c", BUILD, f"build_{kind}", out, cwd=source)
    (found,) = out.iterdir()
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """The checkout's files, so that building leaves nothing in it."""
    folder = tmp_path_factory.mktemp("source") / "tandem"
    at_the_top = shutil.ignore_patterns(*NOT_SOURCE)
    below = shutil.ignore_patterns("__pycache__", "work")

    def left_out(place: str, names: list[str]) -> set[str]:
        return below(place, names) | (at_the_top(place, names) if Path(place) == ROOT else set())

    shutil.copytree(ROOT, folder, ignore=left_out)
    return folder


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory) -> Path:
    return built("wheel", source, tmp_path_factory.mktemp("dist") / "wheel")


def environment_with(package: Path, folder: Path, *flags: object) -> Path:
    """A new environment that the package is installed into; returns its `tandem`."""
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    venv.create(folder, symlinks=True)
    run(*pip, "install", "--quiet", *flags, package, cwd=folder, deadline_s=900)
    return folder / "bin" / "tandem"


def put_in_the_way(desk: Path) -> None:
    """Modules that are not the program's, in an empty folder."""
    for name in IN_THE_WAY:
        (desk / name).parent.mkdir(parents=True, exist_ok=True)
        (desk / name).write_text("raise SystemExit('this is not the program')\n")


def test_it_works_from_any_folder_without_its_checkout(wheel, small_corpus, tmp_path_factory):
    """With the packages that it needs taken from the environment of the tests."""
    folder = tmp_path_factory.mktemp("i")
    environment, desk = folder / "environment", folder / "desk"
    put_in_the_way(desk)
    tandem = environment_with(wheel, environment, "--no-deps")
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    own = {"TANDEM_CACHE": str(folder / "cache"), "XDG_RUNTIME_DIR": str(folder)}

    assert run(tandem, "--help", cwd=desk, **own).startswith("usage: tandem --train-data")
    (words,) = documented("examples")
    assert "configs/laptop.toml" in run(tandem, *words[1:], cwd=desk, **own)
    assert (desk / "examples" / "classifier.py").read_bytes() == (
        ROOT / "examples" / "classifier.py"
    ).read_bytes()
    shutil.rmtree(desk / "configs")
    voice = ("--train-data", small_corpus, "--run-dir", "runs/mine", "--config", "laptop")
    assert "Prepared runs/mine" in run(tandem, *voice, "--prepare-only", cwd=desk, **own)
    assert 'model_size = "tiny"' in (desk / "runs" / "mine" / "config.toml").read_text()
    packages = environment.glob("lib/python*/site-packages/shared/**/__pycache__")
    assert any(packages), "what ran was not what was installed"


def test_a_source_distribution_makes_the_same_wheel_and_has_the_tests(source, wheel, tmp_path):
    archive = built("sdist", source, tmp_path / "sdist")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    again = built("wheel", unpacked, tmp_path / "again")
    names = [set(zipfile.ZipFile(path).namelist()) for path in (wheel, again)]
    assert names[0] == names[1]
    modules = {file.relative_to(ROOT).as_posix() for file in (ROOT / "data_worker").rglob("*.py")}
    assert modules <= names[0]
    for name in ("Makefile", "docs/README.md", "tests/run.py", "requirements.lock"):
        assert (unpacked / name).is_file(), name


@pytest.fixture(scope="module")
def an_index():
    """Somewhere that pip finds packages."""
    found = subprocess.run(
        [sys.executable, "-m", "pip", "index", "versions", "six"],
        capture_output=True,
        timeout=120,
        check=False,
    )
    if found.returncode:
        pytest.skip("pip finds no package index from here")


@pytest.mark.long
def test_pip_makes_an_environment_that_trains_the_demo_from_an_empty_folder(
    wheel, an_index, tmp_path_factory
):
    """Everything as a user has it: pip fetches what the wheel asks for."""
    folder = tmp_path_factory.mktemp("i")
    desk = folder / "desk"
    put_in_the_way(desk)
    tandem = environment_with(
        wheel, folder / "environment", "--constraint", ROOT / "requirements.lock"
    )
    own = {
        "TANDEM_CACHE": str(folder / "cache"),
        "XDG_RUNTIME_DIR": str(folder),
        "HOME": str(folder),
    }
    said = run(tandem, "demo", "--minutes", "0.5", cwd=desk, **own)
    assert "Listen to demo/run/demo.wav" in said and "tandem speak --run demo/run" in said
    assert (desk / "demo" / "run" / "demo.wav").stat().st_size > 10_000
    speak = ("speak", "--run", "demo/run", "--text", "Hello there.", "--out", "hello.wav")
    run(tandem, *speak, cwd=desk, **own)
    assert (desk / "hello.wav").stat().st_size > 10_000
    assert "demo/run" in run(tandem, "runs", "demo", cwd=desk, **own)
    run(tandem, "report", "demo/run", "--zip", "mine.zip", cwd=desk, **own)
    assert "run/report.html" in zipfile.ZipFile(desk / "mine.zip").namelist()
