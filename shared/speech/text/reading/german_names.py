"""How German reads abbreviations, acronyms and roman numerals."""

from __future__ import annotations

import re

from shared.speech.text.reading import roman
from shared.speech.text.reading.full_stop import at_the_end
from shared.speech.text.reading.german_ordinals import in_words
from shared.speech.text.reading.german_words import (
    ABBREVIATIONS,
    ACRONYMS,
    BEFORE_WORDS,
    COUNTED,
    LETTERED,
    NAMED,
    NUMBERED,
    ONLY_WITH_STOP,
    RULERS,
)
from shared.speech.text.reading.reader import Rule

# What "z.B." and "z. B." are looked up by.
_LETTERED = {"".join(short.split()): words for short, words in LETTERED.items()}
_LETTERED_PATTERN = "|".join(
    r"\s?".join(re.escape(part) for part in short.split())
    for short in sorted(LETTERED, key=len, reverse=True)
)
_GENITIVE = re.compile(r"\b(?:des|eines|seines|ihres) \w+s\s+$")
_ACCUSATIVE = re.compile(
    r"\b(?:durch|für|gegen|ohne|über)(?: (?:den|seinen|ihren))?(?: [A-ZÄÖÜ]\w+)?\s+$"
)
_DATIVE = re.compile(
    r"\b\w+em [A-ZÄÖÜ]\w+\s+$|"
    r"\b(?:von|mit|unter|bei|nach|seit|zu|vor|aus|gegenüber)(?: (?:Kaiser|König|Papst|Zar|Königin))?"
    r"(?: [A-ZÄÖÜ]\w+)?\s+$"
)


def _lettered(match: re.Match[str]) -> str:
    return _LETTERED["".join(match[1].split())] + at_the_end(match)


def _before_word(match: re.Match[str]) -> str | None:
    words, after = BEFORE_WORDS.get(match[1]), match.string[match.end() :]
    if match[1] in NUMBERED and not re.match(r"\s?(?:\d|[IVX]+\b)", after):
        return None
    if match[1] in NAMED and not re.match(r"\s?[A-ZÄÖÜ]|-", after):
        return None
    return words and words + (" " if match.string[match.end() :][:1].isdigit() else "")


def _abbreviation(match: re.Match[str]) -> str | None:
    words = ABBREVIATIONS.get(match[1])
    return words and words + at_the_end(match)


def _bare(match: re.Match[str]) -> str | None:
    return None if match[1] in ONLY_WITH_STOP else ABBREVIATIONS.get(match[1])


def _street(match: re.Match[str]) -> str:
    return "straße" + at_the_end(match)


def _number(match: re.Match[str]) -> str:
    return "nummer "


def _page(match: re.Match[str]) -> str:
    return "Seiten " if match[1] == "SS" else "Seite "


def _roman(match: re.Match[str]) -> str | None:
    name, numeral, stop = match["name"], match["numeral"], match["stop"]
    value = roman.value_of(numeral)
    if value == 0:
        return None
    if name in COUNTED:
        return f"{name} {value}{at_the_end(match)}"
    if name in RULERS or (name.endswith("s") and name[:-1] in RULERS):
        if not stop and len(numeral) == 1 and numeral != "V":
            return None
        article, ending = "der", "e"
        before = match.string[: match.start()]
        if name not in RULERS or _GENITIVE.search(before):
            article, ending = "des", "en"
        elif _DATIVE.search(before):
            article, ending = "dem", "en"
        elif _ACCUSATIVE.search(before):
            article, ending = "den", "en"
        elif name in ("Elisabeth", "Katharina", "Maria", "Isabella", "Kleopatra", "Margarethe"):
            article = "die"
        return f"{name} {article} {in_words(value, ending)}" + at_the_end(match)
    return f"{name} {value}{stop}" if len(numeral) > 1 and value < 40 else None


def _bare_roman(match: re.Match[str]) -> str | None:
    value = roman.value_of(match[1])
    return str(value) if value and match[1] not in ("XX", "XXX") else None


_RULES = [
    Rule(
        re.compile(
            rf"\b(?P<name>[A-ZÄÖÜ][a-zäöüß]+) (?P<numeral>{roman.NUMERAL})\b(?P<stop>\.?)(?!\w)"
        ),
        _roman,
    ),
    Rule(re.compile(r"\b([IVX]{2,})\b(?!\.)"), _bare_roman),
    Rule(re.compile(rf"(?<!\w)(?=\w\.)({_LETTERED_PATTERN})(?!\w)"), _lettered),
    Rule(re.compile(r"\b(SS?)\. ?(?=\d)"), _page),
    Rule(re.compile(r"(?<=[a-zäöüß])nr\. ?(?=\d)"), _number),
    Rule(
        re.compile(r"\bNr\. ([IVX]+)\b"),
        lambda match: f"Nummer {roman.value_of(match[1]) or match[1]}",
    ),
    Rule(re.compile(r"(?<=\d) ff?\.(?!\w)"), lambda match: " folgende" + at_the_end(match)),
    Rule(re.compile(r"\b([^\W\d_]+)\.(?=\s?\S)"), _before_word),
    Rule(re.compile(r"(?<=[a-zäöüß])-?str\.(?!\w)"), _street),
    Rule(re.compile(r"\b([^\W\d_]+)\.(?!\w)"), _abbreviation),
    Rule(re.compile(r"\b([^\W\d_]{2,7})\b(?![.-])"), _bare),
    Rule(re.compile(r"\b[A-ZÄÖÜ]{2,5}\b"), lambda match: ACRONYMS.get(match.group())),
]

RULES = [rule._replace(has_number=False) for rule in _RULES]
