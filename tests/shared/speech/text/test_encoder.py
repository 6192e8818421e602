"""A text as a voice says it: numbers of symbols, styles for each, pauses, and what is left out."""

import subprocess
import sys

import numpy as np
import pytest

from shared.errors import InputError
from shared.speech.mel import HOP, SAMPLE_RATE
from shared.speech.text.encoder import TextEncoder
from shared.speech.text.frontend import make_frontend
from shared.speech.text.lexicon import Lexicon
from shared.speech.text.symbols import build_table

TEXTS = (
    "The quick brown fox jumps over the lazy dog. I never said that, did I? Five kilograms!",
    "Tomato. Doctor Brown lives on May third. Yes: wait; go…",
)


@pytest.fixture(scope="module")
def table():
    frontend = make_frontend("phonemes", "en-us")
    return build_table(frontend.symbols(text)[0] for text in TEXTS)


@pytest.fixture
def encoder(table):
    return TextEncoder("phonemes", "en-us", table)


def spelled(piece, table) -> str:
    return "".join(table[number] for number in piece.symbols[1:-1])


def test_a_plain_text_is_read_as_the_corpus_was(encoder, table):
    frontend = make_frontend("phonemes", "en-us")
    for text in TEXTS:
        said = " ".join(spelled(piece, table) for piece in encoder.encode(text))
        assert said == frontend.symbols(text)[0]
    assert encoder.unknown == {}


def test_abbreviations_are_read_before_sentences_are_looked_for(encoder, table):
    (piece,) = encoder.encode("Dr. Brown lives on 5 kg.")
    assert spelled(piece, table) == spelled(
        encoder.encode("Doctor Brown lives on five kilograms.")[0], table
    )


def test_a_style_reaches_its_words_and_no_others(encoder, table):
    text = 'I <prosody rate="50%" pitch="+3st">never</prosody> said that.'
    (piece,) = encoder.encode(text)
    (plain,) = encoder.encode("I never said that.")
    assert spelled(piece, table).replace("ˈ", "") == spelled(plain, table).replace("ˈ", "")
    slow = "".join(
        table[number]
        for number, speed in zip(piece.symbols, piece.speed, strict=True)
        if speed == 0.5
    )
    assert slow.strip() == make_frontend("phonemes", "en-us").symbols("never")[0]
    assert set(piece.pitch[piece.speed == 0.5]) == {3} and set(piece.pitch[piece.speed == 1]) == {0}
    assert plain.speed is None and plain.pitch is None


def test_punctuation_after_a_tag_stays_with_its_word(encoder, table):
    (piece,) = encoder.encode("I <emphasis>never</emphasis>, said that.")
    assert ", " in spelled(piece, table) and " ," not in spelled(piece, table)
    first, second = encoder.encode("<emphasis>I said that.</emphasis> Did I?")
    assert first.speed is not None and second.speed is None


def test_a_style_goes_on_over_sentences(encoder):
    pieces = encoder.encode('<prosody rate="slow">Yes. Wait.</prosody> Go.')
    assert [piece.speed is not None for piece in pieces] == [True, True, False]


def test_a_break_is_the_pause_that_was_asked_for(encoder):
    pieces = encoder.encode(
        'Wait <break time="500ms"/> go. Yes. <break time="1s"/><break time="1s"/> Did I?'
    )
    assert [round(p.pause_frames * HOP / SAMPLE_RATE, 2) for p in pieces] == [0.5, 0.26, 2.0, 0.0]
    assert [piece.is_break for piece in pieces] == [True, False, True, False]
    first, second = encoder.encode('<break time="1s"/>Yes.')
    assert len(first.symbols) == 0 and first.pause_frames == 86 and len(second.symbols) > 2
    assert encoder.encode('<break time="1s"/> … <break/>') == []


def test_phonemes_are_said_as_they_are_written(encoder, table):
    (piece,) = encoder.encode("I said [[təmˈɑːɾoʊ]], never [[doɡ]].")
    assert spelled(piece, table) == "aɪ sˈɛd təmˈɑːɾoʊ, nˈɛvɚ doɡ."


def test_a_lexicon_counts_before_the_rules(table):
    encoder = TextEncoder("phonemes", "en-us", table, Lexicon({"dr.": "[[dɑɡ]]", "fox": "dog"}))
    assert spelled(encoder.encode("Dr. fox.")[0], table) == "dɑɡ dˈɑːɡ."


def test_what_a_voice_never_learnt_is_told_once_with_its_word(encoder):
    encoder.encode("The † of the church, the church and [[doɣ]].")
    assert encoder.unknown == {"†": "†", "ʃ": "church", "ɣ": "doɣ"}


def test_a_tag_that_cannot_be_is_refused(encoder):
    with pytest.raises(InputError, match="never closed"):
        encoder.encode("<emphasis>Yes.")


def test_characters_keep_their_marks_and_gaps():
    encoder = TextEncoder("characters", "en-us", build_table(["abcdefghijklmnopqrstuvwxyz,.!"]))
    (piece,) = encoder.encode("We <emphasis>never</emphasis>, un<emphasis>believ</emphasis>able!")
    table = build_table(["abcdefghijklmnopqrstuvwxyz,.!"])
    assert spelled(piece, table) == "we never, unbelievable!"
    assert np.count_nonzero(piece.speed != 1) == len(" neverbeliev")


def test_texts_are_encoded_without_tensorflow():
    program = (
        "import sys, shared.speech.text.encoder as e;"
        "e.TextEncoder('phonemes', 'de', ['_', '<s>', '</s>', ' ', 'a']).encode('<emphasis>a</emphasis>');"
        "sys.exit('tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
