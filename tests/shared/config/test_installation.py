"""What the program is called, and which files come with it, in a checkout and installed."""

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest
from setuptools import find_packages

from shared.config import installation
from shared.config.installation import ROOT, config_file, pip_install, program_name, shipped_files

PACKAGES = ("shared", "data_worker", "model_worker")


@pytest.mark.parametrize(
    ("called", "told", "is_checkout", "name"),
    [
        ("launcher.py", None, True, "python launcher.py"),
        ("/home/me/tandem/launcher.py", None, True, "python launcher.py"),
        ("/home/me/tandem/.venv/bin/tandem", None, True, "tandem"),
        ("/opt/voices/bin/tandem", None, False, "tandem"),
        ("/opt/lib/python3.11/site-packages/launcher.py", None, False, "tandem"),
        ("-m", "tandem", True, "tandem"),  # a worker that `tandem` has started
        ("-m", "python launcher.py", True, "python launcher.py"),
        ("-c", None, True, "python launcher.py"),
        ("launcher.py", "rm -rf /", True, "python launcher.py"),
    ],
)
def test_the_program_is_called_as_its_user_calls_it(called, told, is_checkout, name):
    assert program_name(called, told, is_checkout) == name


@pytest.mark.parametrize(
    ("called", "usage"),
    [("tandem", "usage: tandem speak"), ("launcher.py", "usage: python launcher.py speak")],
)
def test_the_help_says_what_to_type(called, usage):
    code = f"import sys, launcher; sys.argv = [{called!r}]; sys.exit(launcher.main(['speak', '--help']))"
    code = f"import sys; sys.argv = [{called!r}]; {code}"
    environment = {name: value for name, value in os.environ.items() if "TANDEM" not in name}
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert said.returncode == 0 and said.stdout.startswith(usage), said.stdout + said.stderr


def test_every_folder_with_code_is_in_the_wheel():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    include = setup["options.packages.find"]["include"].split()
    found = set(find_packages(str(ROOT), include=include))
    folders = {file.parent for name in PACKAGES for file in (ROOT / name).rglob("*.py")}
    assert found == {".".join(folder.relative_to(ROOT).parts) for folder in folders}


def test_every_file_that_is_not_code_is_in_the_wheel():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    patterns = setup["options.package_data"]
    packed = {
        file
        for name in patterns
        for pattern in patterns[name].split(", ")
        for file in (ROOT / name).glob(pattern)
    }
    others = {
        file
        for name in PACKAGES
        for file in (ROOT / name).rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc")
    }
    assert packed == others


def test_what_comes_with_the_program_is_what_the_wheel_takes():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    taken = {
        f"{target.removeprefix('share/tandem').removeprefix('/')}/{file.name}".removeprefix("/")
        for target, patterns in setup["options.data_files"].items()
        for file in ROOT.glob(patterns)
    }
    assert taken == set(shipped_files())
    assert {"configs/laptop.toml", "examples/classifier.py", "requirements-gpu.lock"} <= taken


@pytest.mark.parametrize("given", ["laptop", "laptop.toml", "configs/laptop.toml"])
def test_a_ready_configuration_is_found_from_any_folder(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config_file(given) == ROOT / "configs" / "laptop.toml"
    own = tmp_path / given
    own.parent.mkdir(exist_ok=True)
    own.write_text("")
    assert config_file(given) == Path(given), "a file of one's own comes first"


@pytest.mark.parametrize("given", ["mine", "elsewhere/laptop.toml", "../laptop", "/laptop.toml"])
def test_other_names_are_files(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config_file(given) == Path(given)


def test_the_versions_for_gpus_are_found_without_a_checkout(monkeypatch):
    assert pip_install("requirements-gpu.lock") == "python -m pip install -r requirements-gpu.lock"
    shipped = {"requirements-gpu.lock": Path("/opt/voices/share/tandem/requirements-gpu.lock")}
    monkeypatch.setattr(installation, "IS_CHECKOUT", False)
    monkeypatch.setattr(installation, "shipped_files", lambda: shipped)
    assert pip_install("requirements-gpu.lock").endswith(
        " -r /opt/voices/share/tandem/requirements-gpu.lock"
    )
