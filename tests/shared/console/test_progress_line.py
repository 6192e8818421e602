"""How far a preparation is, in one line of any width."""

import io

import pytest

from shared.console.progress_line import ProgressLine, can_rewrite, progress_line


@pytest.mark.parametrize("columns", [1, 10, 20, 40, 80, 300])
def test_the_line_never_wraps(columns):
    line = progress_line("decoding every file once", 6_550, 13_100, columns)
    assert len(line) < max(columns, 1) or line == ""


def test_the_count_is_shown_wherever_there_is_room_and_a_bar_where_there_is_more():
    assert progress_line("decoding every file once", 1, 13_100, 40).endswith(" 1/13,100")
    wide = progress_line("decoding every file once", 6_550, 13_100, 80)
    assert wide.startswith("   decoding every file once █") and wide.endswith("░ 6,550/13,100")
    assert wide.count("█") == wide.count("░")


def test_what_can_not_be_counted_is_named_all_the_same():
    assert progress_line("looking", 0, 0, 80) == "   looking"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "CI": "false"}, True), ({"TERM": "dumb"}, False),
     ({}, False), ({"TERM": "xterm", "CI": "true"}, False)],
)  # fmt: skip
def test_only_a_terminal_that_moves_its_cursor_is_rewritten(monkeypatch, environment, expected):
    for name in ("TERM", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert can_rewrite(Terminal()) is expected
    assert not can_rewrite(io.StringIO()) and not can_rewrite(None)


def test_where_nothing_can_be_rewritten_a_line_is_said_now_and_then(monkeypatch):
    clock_s, said, out = [0.0], [], io.StringIO()
    monkeypatch.setattr("time.monotonic", lambda: clock_s[0])
    line = ProgressLine(out, said.append)
    for clock_s[0] in range(25):
        line.show(int(clock_s[0]), 100, "looking")
    line.clear()
    assert [words.split()[-1] for words in said] == ["10/100", "20/100"]
    assert out.getvalue() == ""
