"""Roman numerals up to 3,999."""

from __future__ import annotations

import re

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_CANONICAL = re.compile("M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")

NUMERAL = "[IVXLCDM]+"


def value_of(numeral: str) -> int:
    """The number that a numeral stands for; 0 where it is none, such as "IIX"."""
    if not numeral or not _CANONICAL.fullmatch(numeral):
        return 0
    values = [_VALUES[letter] for letter in numeral]
    following = [*values[1:], 0]
    return sum(-a if a < b else a for a, b in zip(values, following, strict=True))
