"""Numbers, dates and abbreviations: how many sentences are read as people read them.

    python benchmarks/reading.py [--language en de] [--json FILE]

Each line of readings/*.tsv is a kind, a sentence and how it is read; where people differ, other
readings follow. A sentence counts as right where it has the sounds of one of its readings. Stress,
the gaps between words and punctuation are left aside: they differ between "84" and "eighty-four"
though both sound the same.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from results import Line, finish, parser_of, say

from shared.speech.text.frontend import MARKS, Phonemes

LANGUAGES = {"en": "en-us", "de": "de"}
GOAL = 0.95

_NOT_SOUNDS = re.compile(rf"[ˈˌ‖\s·{re.escape(MARKS)}]")
# espeak-ng reads these words otherwise where they are written in digits or as letters.
_SAME_SOUNDS = (
    ("ᵻ", "ɪ"),
    ("eɪɾi", "eɪti"),
    ("fiːɾtseːn", "fɪɾtseːn"),
    ("fiːɾtsɪç", "fɪɾtsɪç"),
    ("ɾ", "r"),
    ("ʊnd", "ʊnt"),
)
_LETTERS = re.compile(r"(?<!\w)[A-ZÄÖÜ](?: [A-ZÄÖÜ](?!\w))+")
_PART = (
    "hundert|tausend|(?:drei|vier|fünf|sech|sieb|acht|neun)zehn|dreißig"
    "|(?:zwan|vier|fünf|sech|sieb|acht|neun)zig|zehn|elf|zwölf"
    "|eins?|zwei|drei|vier|fünf|sechs|sieben|acht|neun|und"
)
_GERMAN_NUMBER = re.compile(rf"\b(?:{_PART}){{2,}}(s?te[nrs]?|er)?\b", re.IGNORECASE)


class Sentence(NamedTuple):
    """readings: the first is how we would say it, the others are as good."""

    kind: str
    text: str
    readings: list[str]


def sentences(path: Path) -> list[Sentence]:
    """The lines of a file of readings."""
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines() if line]
    return [Sentence(kind, text, readings) for kind, text, *readings in rows]


def _in_parts(number: re.Match[str]) -> str:
    """ "vierundzwanzigsten" as "vier und zwanzigsten"."""
    ending = number.group(1) or ""
    parts = re.findall(_PART, number.group().removesuffix(ending), re.IGNORECASE)
    return " ".join(parts) + ending


class Judge:
    """Compares what a text sounds like with what its readings do."""

    def __init__(self, language: str):
        self._frontend = Phonemes(language)

    def is_right(self, sentence: Sentence) -> bool:
        heard = self._same(self._frontend.symbols(sentence.text)[0])
        return any(heard == self.sounds_of(reading) for reading in sentence.readings)

    def heard(self, sentence: Sentence) -> str:
        return self._frontend.symbols(sentence.text)[0]

    def sounds_of(self, reading: str) -> str:
        """Of a reading; letters as one acronym, German numbers in parts that espeak-ng can read."""
        reading = _LETTERS.sub(lambda match: ".".join(match.group().split()) + ".", reading)
        reading = _GERMAN_NUMBER.sub(_in_parts, reading)
        return self._same(self._frontend.sounds(reading)[0])

    def _same(self, symbols: str) -> str:
        sounds = _NOT_SOUNDS.sub("", symbols)
        for one, other in _SAME_SOUNDS:
            sounds = sounds.replace(one, other)
        return sounds


def main() -> None:
    parser = parser_of(__doc__ or "", repeats=1)
    parser.add_argument("--language", nargs="+", choices=LANGUAGES, default=list(LANGUAGES))
    flags = parser.parse_args()
    lines = []
    for language in flags.language:
        judge = Judge(LANGUAGES[language])
        for held_out in (False, True):
            path = HERE / "readings" / f"{language}{'-held-out' if held_out else ''}.tsv"
            found = sentences(path)
            wrong = [each for each in found if not judge.is_right(each)]
            for each in wrong:
                say(
                    f"{language} {each.kind}: {each.text}\n    {judge.heard(each)}\n    {each.readings[0]}"
                )
            share = 1 - len(wrong) / len(found)
            kinds = Counter(each.kind for each in wrong)
            note = f"{len(found)} sentences" + "".join(f", {n} {kind}" for kind, n in kinds.items())
            what = "written after the rules" if held_out else "written before the rules"
            lines.append(Line(f"{language}, {what}", [share], least=GOAL, note=note))
    finish(flags, lines)


if __name__ == "__main__":
    main()
