"""The commands and examples that the README and docs/ give, for the tests that try them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?:^\|.*\|\n)+", re.MULTILINE)


def name_of(page: Path) -> str:
    """A page as it is called from the checkout: README.md, docs/tuning.md."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """What stands in a page's fenced blocks of a language."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [code for name, code in found if name == language]


def command_lines() -> list[tuple[str, str]]:
    """Page and line: each line of each block without a language, then those of its tables."""
    return [
        (name_of(page), line)
        for page in PAGES
        for line in (*_lines_of_blocks(page), *_commands_of_tables(page))
    ]


def _lines_of_blocks(page: Path) -> list[str]:
    commands = [block for block in blocks(page, "") if "─" not in block]  # that is a drawing
    return [line for block in commands for line in block.splitlines() if line.strip()]


def _commands_of_tables(page: Path) -> Iterator[str]:
    """What stands in a column of commands, one in each row.

    Its heading may say how all of them begin, up to a `…`. N is any number.
    """
    for table in TABLE.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        heading, _, *rows = (line.strip("|").split("|") for line in table.splitlines())
        for column, title in enumerate(heading):
            if title.split()[:1] == ["command"]:
                said = re.search(r"`(.*)…`", title)
                beginning = said[1] if said else ""
                for row in rows:
                    (command,) = re.findall(r"`([^`]+)`", row[column])
                    yield beginning + re.sub(r"\bN\b", "7", command)


def words_of(line: str) -> list[str]:
    """The words of a command line; of what a shell is to do with a command, those of the command."""
    inner = (
        re.match(r"source <\((.*?)\)", line)
        or re.match(r"(.*) \| source", line)
        or re.fullmatch(r"nohup (.*?) > \S+ 2>&1 &", line)
    )
    return shlex.split(inner[1] if inner else line, comments=True)


def command_of(words: list[str]) -> str:
    """What a command is: train, speak, …; the module after `python -m`; else the program.

    A benchmark's first word is part of what it is, if it has one: benchmarks/faults.py data.
    """
    program, *rest = words
    if program == "tandem" or (program == "python" and rest[0] == "launcher.py"):
        rest = rest if program == "tandem" else rest[1:]
        return "train" if rest[0].startswith("-") else rest[0]
    if program == "python":
        script, *more = rest[1:] if rest[0] == "-m" else rest
        scenario = more[:1] if script.startswith("benchmarks/") else []
        return " ".join([script, *(word for word in scenario if not word.startswith("-"))])
    return f"make {rest[0]}" if program == "make" else program


def documented(command: str, *holding: str) -> list[list[str]]:
    """The words of every documented command of a kind that has all these words, each kind once.

    Two commands with the same flags and configuration file are of one kind, whatever the values.
    """
    found: dict[tuple, list[str]] = {}
    for _, line in command_lines():
        words = words_of(line)
        if command_of(words) == command and set(holding) <= set(words):
            marks = (word for word in words if word.startswith("--") or word.endswith(".toml"))
            found.setdefault(tuple(sorted(marks)) or tuple(words), words)
    assert found, f"no page has a {command} command with {holding}"
    return list(found.values())


def the_documented(command: str, *holding: str) -> list[str]:
    """The first of them, in the order of the pages."""
    return documented(command, *holding)[0]
