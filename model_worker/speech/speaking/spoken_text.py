"""What a run's voice makes of a text: pieces as symbol numbers, and what it has no sound for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shared.plan.index import Index
from shared.speech.mel import HOP, SAMPLE_RATE
from shared.speech.text.frontend import MARKS, encode_text, make_frontend
from shared.speech.text.sentences import pieces_of
from shared.speech.text.symbols import SPECIAL


class EncodedPiece(NamedTuple):
    """symbols: int32 (num_symbols,); pause_frames: mel frames of silence after it."""

    symbols: np.ndarray
    pause_frames: int


class TextEncoder:
    """Reads texts as the corpus of the run was read."""

    def __init__(self, index: Index):
        self._frontend = make_frontend(index.text["frontend"], index.text["language"])
        self._table = index.symbol_table
        self._silent = [n for n, s in enumerate(self._table) if s in SPECIAL or s in MARKS]
        self._reported: set[str] = set()
        self.unknown: list[str] = []  # each once, in the order of appearance

    def encode(self, text: str) -> list[EncodedPiece]:
        """The pieces of a text that have a sound; none if nothing of it has."""
        encoded = []
        for piece in pieces_of(text):
            symbols, unknown = encode_text(piece.text, self._frontend, self._table)
            for symbol in unknown:
                if symbol not in self._reported:
                    self._reported.add(symbol)
                    self.unknown.append(symbol)
            if not np.isin(symbols, self._silent).all():
                pause_frames = round(piece.pause_s * SAMPLE_RATE / HOP)
                encoded.append(EncodedPiece(symbols, pause_frames))
        return encoded
