"""What a voice makes of a text: pieces as symbol numbers, how each is spoken, what has no sound.

`speak`, an exported voice and a server read a text with this; it needs no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from shared.plan.index import Index
from shared.speech.mel import HOP, SAMPLE_RATE
from shared.speech.text import symbols
from shared.speech.text.frontend import MARKS, make_frontend
from shared.speech.text.lexicon import Lexicon
from shared.speech.text.markup import MARK, Break, Sounds, Style, parse
from shared.speech.text.sentences import Piece, pieces_of

_SHOWN_WORD = 30
_AROUND_WORDS = "\"'.,;:!?…()[]„“”‚‘’«»"


class EncodedPiece(NamedTuple):
    """What is spoken in one go, and the silence after it.

    symbols: int32 (num_symbols,), with the silence at both ends; none for silence alone.
    pause_frames: mel frames of silence after it.
    speed, pitch: float32 (num_symbols,), a factor and semitones for each symbol beside those that
        are asked for in all; None where the text asks for nothing.
    is_break: the pause was asked for, and is as long at any speed.
    """

    symbols: np.ndarray
    pause_frames: int
    speed: np.ndarray | None = None
    pitch: np.ndarray | None = None
    is_break: bool = False


class TextEncoder:
    """Reads texts as the corpus of a voice was read, by the rules of now."""

    def __init__(
        self, frontend: str, language: str, table: list[str], lexicon: Lexicon | None = None
    ):
        self._frontend = make_frontend(frontend, language)
        self._table = table
        self._lexicon = lexicon
        self._silent = [n for n, s in enumerate(table) if s in symbols.SPECIAL or s in MARKS]
        # What has no sound or no number, each once with a word that it was in, in their order.
        self.unknown: dict[str, str] = {}

    @classmethod
    def of_index(cls, index: Index, lexicon: Lexicon | None = None) -> TextEncoder:
        return cls(index.text["frontend"], index.text["language"], index.symbol_table, lexicon)

    def encode(self, text: str) -> list[EncodedPiece]:
        """The pieces of a text that have a sound; none if nothing of it has.

        Raises:
            InputError: a tag in it can't be understood.
        """
        return list(self.one_by_one(text))

    def one_by_one(self, text: str) -> Iterator[EncodedPiece]:
        """The same, each when it is asked for."""
        marked = parse(text, self._lexicon)
        style = Style()
        silence: EncodedPiece | None = None  # before anything is said
        last: EncodedPiece | None = None  # a break may follow that makes its pause another
        for part, seconds in _parts(marked.text, marked.marks):
            for piece in pieces_of(self._frontend.read(part)):
                found, style = self._piece(piece, marked.marks, style)
                if found is None:
                    continue
                if last is not None:
                    yield last
                elif silence is not None:
                    yield silence
                last = found
            if seconds is not None and last is not None:
                last = _with_break(last, seconds)
            elif seconds is not None:
                silence = _with_break(silence or EncodedPiece(np.zeros(0, np.int32), 0), seconds)
        if last is not None:
            yield last

    def _piece(
        self, piece: Piece, marks: dict[str, Style | Break | Sounds], style: Style
    ) -> tuple[EncodedPiece | None, Style]:
        """A piece, and the style that counts behind it."""
        numbers: list[np.ndarray] = []
        styles: list[Style] = []
        has_gap = False
        for chunk in MARK.split(piece.text):
            mark = marks.get(chunk)
            if isinstance(mark, Style):
                style = mark
                continue
            unspoken: list[str] = []
            if isinstance(mark, Sounds):
                said = mark.symbols
            else:
                said, unspoken = self._frontend.sounds(chunk, goes_on=bool(numbers))
            if said and numbers and (has_gap or chunk[:1].isspace()) and said[0] not in MARKS:
                said = " " + said
            has_gap = (has_gap and not said) or chunk[-1:].isspace()
            if not said and not unspoken:
                continue
            encoded, unknown = symbols.encode(said, self._table)
            self._report(dict.fromkeys([*unspoken, *unknown]), said if mark else chunk)
            numbers.append(encoded[1:-1])
            styles.append(style)
        inner = np.concatenate([np.zeros(0, np.int32), *numbers])
        if np.isin(inner, self._silent).all():
            return None, style
        start, end = symbols.encode("", self._table)[0]
        speed = pitch = None
        if any(each != Style() for each in styles):
            counts = [len(each) for each in numbers]
            counts[0] += 1  # the silence at both ends
            counts[-1] += 1
            speed, pitch = (
                np.repeat(np.array(values, np.float32), counts)
                for values in zip(*styles, strict=True)
            )
        pause_frames = _frames(piece.pause_s)
        return EncodedPiece(
            np.array([start, *inner, end], np.int32), pause_frames, speed, pitch
        ), style

    def _report(self, unknown: dict[str, None], text: str) -> None:
        """Remember each once, with the first word that it comes from."""
        for symbol in unknown:
            if symbol not in self.unknown:
                word = next(self._words_with(symbol, text), "").strip(_AROUND_WORDS)
                self.unknown[symbol] = word[:_SHOWN_WORD]

    def _words_with(self, symbol: str, text: str) -> Iterator[str]:
        words = text.split()
        yield from (word for word in words if symbol in word.lower())
        yield from (word for word in words if symbol in self._frontend.sounds(word)[0])


def _parts(
    text: str, marks: dict[str, Style | Break | Sounds]
) -> Iterator[tuple[str, float | None]]:
    """The text between breaks, and how long is each break that follows; None behind the last."""
    part = ""
    for chunk in MARK.split(text):
        mark = marks.get(chunk)
        if isinstance(mark, Break):
            yield part, mark.seconds
            part = ""
        else:
            part += chunk
    yield part, None


def _with_break(piece: EncodedPiece, seconds: float) -> EncodedPiece:
    """The break in place of the pause behind what was said; a second one makes it longer."""
    frames = _frames(seconds) + (piece.pause_frames if piece.is_break else 0)
    return piece._replace(pause_frames=frames, is_break=True)


def _frames(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE / HOP)
