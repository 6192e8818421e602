"""Long text to pieces that are spoken one by one, with the pause that follows each.

A model that learnt from single sentences speaks single sentences best, and memory stays the same
however long the text is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from shared.speech.text.frontend import PARAGRAPH, goes_on, normalise

MAX_CHARACTERS = 200
PARAGRAPH_PAUSE_S, SENTENCE_PAUSE_S, CLAUSE_PAUSE_S = 0.5, 0.25, 0.12

_CLOSING = "\"'”’»›)]}」』》〉）"
_TAG = "\U000f0000-\U000ffffd"  # a tag of `markup`: it stands with what is before it
_ENDS = ".!?…؟۔"
_WIDE_ENDS = "。．！？।॥"  # end a sentence without a space after them
_SENTENCE_END = re.compile(
    rf"(?:[{_ENDS}]+[{re.escape(_CLOSING)}{_TAG}]*(?=\s|$))"
    rf"|(?:[{_WIDE_ENDS}]+[{re.escape(_CLOSING)}{_TAG}]*)"
)
# Where an over-long sentence may be cut, best first: after a clause, after a word.
_CLAUSE_ENDS = (re.compile(r"[;:—–،、，；：](?=\s|$)|[—、，；：]"), re.compile(r",(?=\s)"))
_WORD_END = re.compile(r"(?<=\S)(?=\s)")


class Piece(NamedTuple):
    """What is spoken in one go, and the silence after it."""

    text: str
    pause_s: float


def pieces_of(text: str, max_characters: int = MAX_CHARACTERS) -> list[Piece]:
    """Cut a text into sentences, and those that are too long into clauses.

    Abbreviations ("Dr. Who"), initials and decimals do not end a sentence. A line break is a
    space, an empty line ends a paragraph. The last piece has no pause after it.
    """
    pieces: list[Piece] = []
    for paragraph in PARAGRAPH.split(text.replace("\r\n", "\n")):
        sentences = _sentences(normalise(paragraph))
        for number, sentence in enumerate(sentences):
            is_last = number == len(sentences) - 1
            pause_s = PARAGRAPH_PAUSE_S if is_last else SENTENCE_PAUSE_S
            pieces += _shortened(sentence, pause_s, max_characters)
    if pieces:
        pieces[-1] = pieces[-1]._replace(pause_s=0.0)
    return pieces


def _sentences(text: str) -> list[str]:
    sentences, begin = [], 0
    for match in _SENTENCE_END.finditer(text):
        before, after = text[begin : match.start()], text[match.end() :]
        if match.group() == "." and after and goes_on(before, after):
            continue
        if match.group()[-1] in _CLOSING and after.lstrip()[:1].islower():
            continue  # "Really?" she asked.
        sentences.append(text[begin : match.end()].strip())
        begin = match.end()
    sentences.append(text[begin:].strip())
    return [sentence for sentence in sentences if sentence]


def _shortened(sentence: str, pause_s: float, max_characters: int) -> list[Piece]:
    """The sentence itself, or two halves of it cut where it hurts least, each shortened again."""
    if len(sentence) <= max_characters:
        return [Piece(sentence, pause_s)]
    cut, pause_between_s = _best_cut(sentence)
    first, second = sentence[:cut].rstrip(), sentence[cut:].lstrip()
    return [
        *_shortened(first, pause_between_s, max_characters),
        *_shortened(second, pause_s, max_characters),
    ]


def _best_cut(sentence: str) -> tuple[int, float]:
    """Where to cut, as near to the middle as the sentence allows, and the pause there."""
    middle, reach = len(sentence) / 2, len(sentence) * 0.35
    for kind, pause_s in [*((kind, CLAUSE_PAUSE_S) for kind in _CLAUSE_ENDS), (_WORD_END, 0.0)]:
        places = [match.end() for match in kind.finditer(sentence)]
        near = [place for place in places if abs(place - middle) <= reach]
        if near:
            return min(near, key=lambda place: abs(place - middle)), pause_s
    return len(sentence) // 2, 0.0
