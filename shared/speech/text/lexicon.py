"""A user's own list of words and how they are said: a line each, `word<TAB>what is said`.

What is said is other words, or phonemes between double brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from shared.errors import InputError

_MOST_WORDS, _MAX_BYTES = 100_000, 16 << 20
_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_ONLY_PHONEMES = re.compile(r"\[\[(.+)\]\]")


class Lexicon:
    """What to say for words; a word in lower case stands for every way to write it."""

    def __init__(self, entries: dict[str, str]):
        self._entries = entries
        # What is one word is looked up, however many there are; the others are looked for.
        others = sorted(
            (each for each in entries if not _WORD.fullmatch(each)), key=len, reverse=True
        )
        found = "|".join([*map(re.escape, others), _WORD.pattern])
        self._found = re.compile(rf"(?<!\w)(?:{found})(?!\w)", re.IGNORECASE)

    @classmethod
    def read(cls, path: str) -> Lexicon:
        """The file that --lexicon names; lines that begin with # are remarks.

        Raises:
            InputError: it can't be read, or a line of it can't.
        """
        try:
            content = Path(path).read_bytes()
            if len(content) > _MAX_BYTES:
                raise InputError(f"--lexicon {path}: is larger than {_MAX_BYTES >> 20} MB.")
            lines = content.decode("utf-8-sig").splitlines()
        except OSError as error:
            raise InputError(f"--lexicon {path}: can't be read ({error.strerror}).") from None
        except UnicodeDecodeError:
            raise InputError(f"--lexicon {path}: is not UTF-8 text. Save it as UTF-8.") from None
        entries = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            before, _, after = line.partition("\t")
            word, said = before.strip(), after.strip()
            if not (word and said):
                raise InputError(
                    f"--lexicon {path}: line {number} is {line[:40]!r}; expected a word, a tab, and "
                    "what is said: other words, or [[phonemes]]."
                )
            entries[word] = said
        if not 0 < len(entries) <= _MOST_WORDS:
            raise InputError(
                f"--lexicon {path}: has {len(entries):,} words; 1 to {_MOST_WORDS:,} are expected."
            )
        return cls(entries)

    def apply(self, text: str, sounds: Callable[[str], str]) -> str:
        """The text with its words as they are said; phonemes go through `sounds`."""

        def said(match: re.Match[str]) -> str:
            word = match.group()
            entry = self._entries.get(word) or self._entries.get(word.lower())
            if entry is None:
                return word
            phonemes = _ONLY_PHONEMES.fullmatch(entry)
            return sounds(phonemes[1]) if phonemes else entry

        return self._found.sub(said, text)
