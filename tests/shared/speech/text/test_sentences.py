"""Long text to pieces: where sentences end, where they do not, and what is cut when it must be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.speech.text.sentences import (
    CLAUSE_PAUSE_S,
    MAX_CHARACTERS,
    PARAGRAPH_PAUSE_S,
    SENTENCE_PAUSE_S,
    pieces_of,
)


def texts(text: str, **settings) -> list[str]:
    return [piece.text for piece in pieces_of(text, **settings)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith met J. R. Hartley.", ["Dr. Smith met J. R. Hartley."]),
        ("It costs 3.50 dollars. He paid.", ["It costs 3.50 dollars.", "He paid."]),
        ("See No. 7, e.g. this one.", ["See No. 7, e.g. this one."]),
        ("He left at 5 p.m. and slept.", ["He left at 5 p.m. and slept."]),
        ('"Really?" she asked. "Yes."', ['"Really?" she asked.', '"Yes."']),
        ("Wait... Now go.", ["Wait...", "Now go."]),
        ("a line\nbroken in two.", ["a line broken in two."]),
        ("日本語です。次です。", ["日本語です。", "次です。"]),
        ("یک. آیا؟ بله!", ["یک.", "آیا؟", "بله!"]),
        ("", []),
        (" \n\n \t", []),
    ],
)
def test_sentences_end_where_a_reader_would_say_so(text, sentences):
    assert texts(text) == sentences


def test_pauses_are_longest_after_a_paragraph_and_none_follows_the_end():
    pieces = pieces_of("One. Two.\n\nThree.")
    assert [piece.pause_s for piece in pieces] == [SENTENCE_PAUSE_S, PARAGRAPH_PAUSE_S, 0.0]


def test_a_long_sentence_is_cut_at_a_clause_near_its_middle():
    text = "word " * 25 + "first; " + "word " * 25 + "second."
    pieces = pieces_of(text)
    assert [piece.text[-6:] for piece in pieces] == ["first;", "econd."]
    assert pieces[0].pause_s == CLAUSE_PAUSE_S


def test_without_a_clause_it_is_cut_between_words_and_without_words_anywhere():
    pieces = pieces_of("word " * 100)
    assert all(set(piece.text.split()) == {"word"} for piece in pieces)
    assert {piece.pause_s for piece in pieces} == {0.0}
    assert "".join(texts("x" * 1000)) == "x" * 1000


@given(st.text(alphabet="ab ,.;!?\n\"'(1", max_size=400), st.integers(5, MAX_CHARACTERS))
def test_nothing_is_lost_and_no_piece_is_too_long(text, limit):
    found = texts(text, max_characters=limit)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(0 < len(piece) <= limit for piece in found)
