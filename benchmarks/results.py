"""What a benchmark found: lines with their spread, printed as a table and kept as JSON.

Each script collects `Line`s and ends with `finish`, which prints them and, with `--json FILE`,
writes them for `run_all.py`. Every value is one repeat; the median is shown, with the lowest and
the highest in brackets.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import math
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Line:
    """One figure: its repeats, what it is counted in, and the goal it has, if any."""

    name: str
    values: list[float]
    unit: str = ""
    least: float | None = None
    most: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        """Of the repeats; not a number where there are none."""
        return statistics.median(self.values) if self.values else math.nan

    @property
    def reached(self) -> bool | None:
        """Whether the median meets the goal; None without a goal or a value."""
        if not self.values or (self.least is None and self.most is None):
            return None
        above = self.least is None or self.median >= self.least
        below = self.most is None or self.median <= self.most
        return above and below

    def goal_in_words(self) -> str:
        if self.least is not None:
            return f"≥ {self.least:g}"
        return f"≤ {self.most:g}" if self.most is not None else ""

    def value_in_words(self) -> str:
        if not self.values:
            return "not measured"
        spread = f" [{number(min(self.values))}–{number(max(self.values))}]"
        return f"{number(self.median)}{spread if len(self.values) > 1 else ''} {self.unit}".strip()

    def mark(self) -> str:
        return {True: "✅", False: "❌", None: ""}[self.reached]


def number(value: float) -> str:
    """Three digits that matter, thousands with commas."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 or value == 0 else f"{value:.1e}"


def parser_of(doc: str, repeats: int = 3) -> argparse.ArgumentParser:
    """The flags that every script has."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return parser


def absent(module: str) -> str | None:
    """Why a peer can't take part, or None when it can."""
    if importlib.util.find_spec(module) is None:
        return f"{module} is not installed here"
    return None


def ratios(ours: Iterable[float], theirs: Iterable[float]) -> list[float]:
    """Ours over theirs, repeat by repeat; nothing where a side was not measured."""
    return [a / b for a, b in zip(ours, theirs, strict=False) if b]


def table(lines: list[Line]) -> str:
    """The lines as aligned text."""
    rows = [("", "figure", "goal", "")]
    rows += [(x.name, x.value_in_words(), x.goal_in_words(), f"{x.mark()} {x.note}") for x in lines]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3].strip()])
        for row in rows
    )


def markdown(lines: list[Line]) -> str:
    """The lines as a Markdown table."""
    rows = ["| | figure | goal | |", "|---|---|---|---|"]
    for line in lines:
        last = f"{line.mark()} {line.note}".strip()
        cells = (line.name, line.value_in_words(), line.goal_in_words(), last)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def finish(flags: argparse.Namespace, lines: list[Line]) -> None:
    """Print the table, and write the lines where `--json` says."""
    print(table(lines), flush=True)
    if flags.json:
        flags.json.write_text(json.dumps([dataclasses.asdict(line) for line in lines], indent=1))


def lines_of(stored: list[dict]) -> list[Line]:
    return [Line(**entry) for entry in stored]


def say(text: str) -> None:
    """Progress, kept apart from the table."""
    print(text, file=sys.stderr, flush=True)
