"""Ray's lock holds all that Ray asks for beside requirements.lock, and changes nothing of that."""

import configparser
import importlib.metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]


def pins(lock):
    lines = (ROOT / lock).read_text().splitlines()
    found = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in found.items()}


def test_no_package_is_pinned_twice():
    assert not pins("requirements-ray.lock").keys() & pins("requirements.lock").keys()


def test_ray_is_within_the_range_of_the_extra():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    wanted = Requirement(setup["options.extras_require"]["ray"].strip())
    assert wanted.name == "ray" and pins("requirements-ray.lock")["ray"] in wanted.specifier


def test_everything_that_ray_asks_for_is_pinned_within_its_range():
    pytest.importorskip("ray", reason="python -m pip install -r requirements-ray.lock")
    found = {**pins("requirements.lock"), **pins("requirements-ray.lock")}
    for text in importlib.metadata.requires("ray") or ():
        asked = Requirement(text)
        if asked.marker is None or asked.marker.evaluate({"extra": ""}):
            assert found[canonicalize_name(asked.name)] in asked.specifier, text
