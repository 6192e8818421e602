"""The symbol table of a run: which symbol has which number.

A table is a list of strings. Entry 0 is padding, 1 and 2 are the silence before and after an
utterance, 3 is the gap between words; the corpus' own symbols follow, sorted. The special entries
that can't be typed have more than one character, so that no character of a text can be mistaken
for them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shared.errors import DataError

PADDING, START, END, SPACE = "_", "<s>", "</s>", " "
SPECIAL = (PADDING, START, END, SPACE)
MAX_SYMBOLS = 32_767  # the index keeps symbol numbers as int16


def build_table(texts: Iterable[str]) -> list[str]:
    """The table for a corpus, given each utterance's symbols as one string.

    Raises:
        DataError: there are more different symbols than an index can number.
    """
    found: set[str] = set()
    for text in texts:
        found.update(text)
    table = [*SPECIAL, *sorted(found.difference(SPECIAL))]
    if len(table) > MAX_SYMBOLS:
        raise DataError(
            f"The texts hold {len(table):,} different symbols; at most {MAX_SYMBOLS:,} can be "
            f"used. Use --text-frontend phonemes, or look for a binary file in the metadata."
        )
    return table


def encode(symbols: str, table: list[str]) -> tuple[np.ndarray, list[str]]:
    """Number the symbols of one utterance, with the silence at both ends.

    Returns:
        int32 (num_symbols,), and each symbol that the table does not have, once, in the order of
        appearance. Those are left out of the numbers; it is the caller's to say so.
    """
    numbers = {symbol: number for number, symbol in enumerate(table) if symbol != PADDING}
    known = [numbers[symbol] for symbol in symbols if symbol in numbers]
    unknown = list(dict.fromkeys(symbol for symbol in symbols if symbol not in numbers))
    return np.array([numbers[START], *known, numbers[END]], np.int32), unknown


def encode_corpus(texts: list[str], table: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Number the symbols of many utterances at once, all of which the table has.

    Returns:
        int16 (all symbols,) and int64 offsets (texts + 1,), as a ragged column keeps them.
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    points = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    distinct, where = np.unique(points, return_inverse=True)
    numbers = {symbol: number for number, symbol in enumerate(table)}
    lookup = np.array([numbers[chr(point)] for point in distinct.tolist()], np.int16)
    offsets = np.concatenate([[0], np.cumsum(lengths + 2)]).astype(np.int64)
    values = np.empty(offsets[-1], np.int16)
    inner = np.ones(len(values), bool)
    inner[offsets[:-1]] = False
    inner[offsets[1:] - 1] = False
    values[offsets[:-1]] = numbers[START]
    values[offsets[1:] - 1] = numbers[END]
    if len(distinct):
        values[inner] = lookup[where]
    return values, offsets
