"""CONTRIBUTING.md leads to files that exist, and no further than two steps from the top."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"`([\w.-]*(?:/[\w.-]*)+|[\w-]+\.(?:py|md|cfg|toml|lock))`", PAGE)
TESTED = re.findall(r"python -m pytest (\S+)", PAGE)
ANSWERS = re.findall(r"^\| (when|what|how|where|which|whom|whether)\b[^|]*\|(.*)\|$", PAGE, re.M)


@pytest.mark.parametrize("path", sorted({*QUOTED, *TESTED}))
def test_a_path_that_is_named_exists(path):
    assert (ROOT / path).exists()
    assert path.endswith("/") == (ROOT / path).is_dir(), "folders are written with a slash"


def test_there_are_paths_to_look_for():
    assert {"shared/plan/plan.py", "setup.cfg", "tests/faulty/", ".ci/run"} <= set(QUOTED)
    assert TESTED and len(ANSWERS) > 5


@pytest.mark.parametrize("answer", [answer for _, answer in ANSWERS])
def test_who_decides_is_answered_by_a_file_two_steps_from_the_top(answer):
    named = re.findall(r"`([^`]+)`", answer)
    assert named
    for path in named:
        assert (ROOT / path).is_file() and len(Path(path).parts) <= 3


def test_its_make_commands_are_there():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake (\w+)\b", PAGE)) <= targets


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_every_link_leads_to_a_file(page):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []
