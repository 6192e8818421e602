"""What the program can say, read from its sources, and whether a quoted message is of that."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACEHOLDER = None  # in a template: one word that a run fills in
ELLIPSIS = "…"  # in a quoted message: anything
LEAST_LITERAL = 0.6  # of a quoted message's letters that its template must have itself
NAME = re.compile(r"\w*[_\d]\w*|[A-Z]{4,}")  # data_worker-0, SIGKILL: filled in, and no prose
JOINTS = re.compile(r"[:;] ")  # where one message is put into another

Template = tuple[str | None, ...]  # characters and placeholders


@functools.cache
def templates_of_the_program() -> set[Template]:
    """Every text in the sources of the launcher and of the three packages."""
    paths = [ROOT / "launcher.py"]
    for package in ("shared", "data_worker", "model_worker"):
        paths += (ROOT / package).rglob("*.py")
    return {found for path in paths for found in templates_of(path.read_text(encoding="utf-8"))}


def templates_of(source: str) -> Iterator[Template]:
    """Texts, docstrings left out: pieces side by side or added are one, `{…}` is a placeholder."""
    tree = ast.parse(source)
    parts: set[ast.AST] = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):  # from the outside in
        if _is_text(node):
            if node not in parts:
                yield tuple(_characters(node))
            parts.update(ast.iter_child_nodes(node))


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add) and (_is_text(node.left) or _is_text(node.right))
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _characters(node: ast.AST) -> Iterator[str | None]:
    if isinstance(node, ast.JoinedStr):
        for value in node.values:
            yield from _characters(value)
    elif isinstance(node, ast.BinOp) and _is_text(node):
        yield from _characters(node.left)
        yield from _characters(node.right)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from node.value
    else:
        yield PLACEHOLDER


def is_said(quoted: str, templates: Iterable[Template]) -> bool:
    """Whether a part of one template is the message, or of one each what stands between joints."""
    templates = list(templates)
    parts = JOINTS.split(quoted)
    return _is_part_of_one(quoted, templates) or (
        len(parts) > 1 and all(_is_part_of_one(part, templates) for part in parts)
    )


def _is_part_of_one(quoted: str, templates: list[Template]) -> bool:
    counted = [char.isalpha() for char in NAME.sub(lambda name: "0" * len(name[0]), quoted)]
    words = _words(NAME.sub("", quoted))
    return not any(counted) or any(
        _letters_in_common(quoted, counted, template) >= LEAST_LITERAL * sum(counted)
        for template in templates
        if words & _words("".join(char or " " for char in template))  # a quick look first
    )


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{3,}", text))


def _letters_in_common(quoted: str, counted: list[bool], template: Template) -> int:
    """The most counted letters that the template has itself where all of `quoted` fits into it.

    `most[n]` is that for what has been read of `quoted`, with the template read up to `n`.
    Returns -1 if it does not fit.
    """
    most = [0] * (len(template) + 1)  # it may begin anywhere
    for char, counts in zip(quoted, counted, strict=True):
        for at, wanted in enumerate(template):
            if char == ELLIPSIS or wanted is PLACEHOLDER:
                most[at + 1] = max(most[at + 1], most[at])
        after = [-1] * len(most)
        for at, found in enumerate(most):
            wanted = template[at] if at < len(template) else ""
            if char == ELLIPSIS or (wanted is PLACEHOLDER and not char.isspace()):
                after[at] = max(after[at], found)
            elif wanted == char and found >= 0:
                after[at + 1] = found + counts
        most = after
    return max(most)
