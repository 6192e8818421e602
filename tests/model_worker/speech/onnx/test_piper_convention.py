"""What Piper is told of a voice's symbols."""

import pytest

from model_worker.speech.onnx.piper_convention import phoneme_map, piper_config

SPECIAL = ["_", "<s>", "</s>", " "]


def test_silence_padding_and_space_have_piper_s_names():
    config = piper_config([*SPECIAL, "a", "ˈ"], "phonemes", "en-us", ["ana"])
    assert config["phoneme_id_map"] == {
        "_": [0], "^": [1], "$": [2], " ": [3], "a": [4], "ˈ": [5]
    }  # fmt: skip
    assert config["phoneme_type"] == "espeak" and config["espeak"] == {"voice": "en-us"}
    assert config["num_symbols"] == 6 and config["num_speakers"] == 1
    assert config["speaker_id_map"] == {}


def test_a_composed_symbol_is_two_code_points_that_belong_together():
    known = phoneme_map([*SPECIAL, "a", "ä", "ç"])
    marks = known.ids["\u0308"], known.ids["\u0327"]
    assert known.ids["a"] == 4 and known.pairs == [(4, marks[0], 5), (known.ids["c"], marks[1], 6)]
    # What is no symbol by itself has a number that no symbol has.
    assert min(*marks, known.ids["c"]) >= 7 and len({*marks, known.ids["c"]}) == 3
    assert known.unreachable == []


def test_a_mark_that_is_a_symbol_keeps_its_own_number():
    known = phoneme_map([*SPECIAL, "e", "\u0303", "ẽ"])
    assert known.ids["\u0303"] == 5 and known.pairs == [(4, 5, 6)]


@pytest.mark.parametrize("symbol", ["^", "$", "ế"])
def test_a_symbol_that_piper_can_t_say_is_told(symbol):
    known = phoneme_map([*SPECIAL, "a", symbol])
    assert known.unreachable == [symbol]
    assert known.ids["^"] == 1 and known.ids["$"] == 2


def test_capitals_and_line_breaks_of_a_text_are_read_as_its_characters_are():
    config = piper_config([*SPECIAL, "a", "ä"], "characters", "", ["ana", "ben"])
    ids = config["phoneme_id_map"]
    assert ids["A"] == ids["a"] and ids["\n"] == ids[" "] and config["phoneme_type"] == "text"
    assert config["speaker_id_map"] == {"ana": 0, "ben": 1}
