"""How the benchmarks' figures are judged, shown and kept."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import results
import run_all
from results import Line


@pytest.mark.parametrize(
    ("line", "reached"),
    [
        (Line("a", [0.97, 0.99, 1.2], least=0.98), True),
        (Line("a", [0.97, 0.97, 1.2], least=0.98), False),
        (Line("a", [1.3], most=1.2), False),
        (Line("a", [1.1], most=1.2), True),
        (Line("a", [1.1]), None),
        (Line("a", [], least=1.0, note="torch is not installed here"), None),
    ],
)
def test_a_goal_is_judged_by_the_median(line, reached):
    assert line.reached is reached


def test_a_figure_shows_its_spread_and_a_missing_one_says_so():
    assert Line("a", [2.0, 1.0, 4.0], "×").value_in_words() == "2 [1–4] ×"
    assert Line("a", [12_345.6], "s").value_in_words() == "12,346 s"
    missing = Line("torch / limit", [], note="torch is not installed here")
    assert "not measured" in results.markdown([missing])
    assert "torch is not installed here" in results.markdown([missing])
    assert "torch is not installed here" in results.table([missing])


def test_ratios_are_taken_repeat_by_repeat():
    assert results.ratios([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]
    assert results.ratios([2.0], []) == []


def test_appended_repeats_stand_beside_the_earlier_ones():
    before = {"command": "x", "lines": [{"name": "a", "values": [1.0]}]}
    found = {
        "command": "y",
        "lines": [{"name": "a", "values": [2.0]}, {"name": "b", "values": [3.0]}],
    }
    both = run_all.appended(before, found)
    assert [line["values"] for line in both["lines"]] == [[1.0, 2.0], [3.0]]
    assert run_all.appended(None, found) == found


def test_the_page_names_command_machine_and_every_missed_goal():
    lines = [{"name": "Tandem / limit", "values": [0.5], "unit": "×", "least": 0.98}]
    entry = {"command": "python benchmarks/overlap.py", "date": "2026-01-02", "seconds": 7,
             "machine": "a machine", "versions": "Python 3", "lines": lines}  # fmt: skip
    page = run_all.page_of({"overlap": entry})
    assert "`python benchmarks/overlap.py`" in page
    assert "a machine. Python 3." in page
    assert page.count("| 0.5 × | ≥ 0.98 | ❌ |") == 2  # among all goals, and in its own table


def test_every_question_has_its_script():
    folder = Path(run_all.__file__).parent
    assert [name for name in run_all.QUESTIONS if not (folder / f"{name}.py").exists()] == []
