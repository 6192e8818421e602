"""A text as it is said: the tokens that espeak-ng misreads, put into words by a language's rules.

espeak-ng reads plain numbers, most ordinals and a good part of the abbreviations well. So a rule
stands only for what it reads otherwise than people do, and leaves it the digits wherever it can.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

# What the rules make of a text is part of the index of every corpus with a text that they change.
# It is to be counted up with any rule that makes another text of it.
VERSION = 4

# Language, as espeak-ng names it, to the module in this folder that holds its rules.
_MODULES = {"en": "english", "de": "german"}


_MOST_CHARACTERS = 5_000  # read at once; no text that is trained on has more


class Rule(NamedTuple):
    """What is looked for, and what is said instead; None leaves what was found as it is.

    Most have a number in them, and are not tried on a text that has none.
    """

    pattern: re.Pattern[str]
    say: Callable[[re.Match[str]], str | None]
    has_number: bool = True


def words(text: str) -> frozenset[str]:
    """A set of words that are written one after the other."""
    return frozenset(text.split())


class Reader:
    """Applies rules to texts, in one pass: what a rule has said is not looked at again."""

    def __init__(self, rules: list[Rule]):
        self._rules = rules
        self._without_number = [rule for rule in rules if not rule.has_number]

    def read(self, text: str) -> str:
        """The text in words. Where two rules begin at one place, the first of them counts."""
        return "".join(self._read(part) for part in _in_parts(text))

    def _read(self, text: str) -> str:
        said, done = [], 0
        for begin, end, words in self._spans(text):
            said += [text[done:begin], words]
            done = end
        return "".join([*said, text[done:]])

    def _spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        has_number = any(map(str.isnumeric, text))
        rules = self._rules if has_number else self._without_number
        ahead = {rule: self._next(rule, text, 0) for rule in rules}
        while found := [each for each in ahead.values() if each]:
            begin, end, words = min(found, key=lambda each: each[0])
            yield begin, end, words
            for rule, each in ahead.items():
                if each and each[0] < end:
                    ahead[rule] = self._next(rule, text, end)

    def _next(self, rule: Rule, text: str, begin: int) -> tuple[int, int, str] | None:
        for match in rule.pattern.finditer(text, begin):
            said = rule.say(match)
            if said is not None and match.end() > match.start():
                return match.start(), match.end(), said
        return None


def _in_parts(text: str) -> Iterator[str]:
    """Rules look back to where a text begins: a whole book would take them for ever."""
    begin = 0
    while len(text) - begin > _MOST_CHARACTERS:
        sentence, word = (text.rfind(gap, begin, begin + _MOST_CHARACTERS) for gap in (". ", " "))
        end = (
            sentence + 2
            if sentence > begin
            else word + 1
            if word > begin
            else begin + _MOST_CHARACTERS
        )
        yield text[begin:end]
        begin = end
    yield text[begin:]


@functools.cache
def reader_of(language: str) -> Reader:
    """The rules of a language; without any, where it has none: its texts stay as they are."""
    code = language.lower().replace("_", "-")
    module = _MODULES.get(code.partition("-")[0])
    if module is None:
        return Reader([])
    return Reader(importlib.import_module(f"shared.speech.text.reading.{module}").rules(code))
