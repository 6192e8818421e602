"""How far a preparation is, in one line of any width."""

import pytest

from shared.preparation_step import progress_line


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
