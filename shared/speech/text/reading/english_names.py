"""How English reads abbreviations, acronyms and roman numerals."""

from __future__ import annotations

import re

from shared.speech.text.reading import roman
from shared.speech.text.reading.english_dates import ordinal
from shared.speech.text.reading.english_words import (
    ABBREVIATIONS,
    ACRONYMS,
    BEFORE_NUMBERS,
    COUNTED,
    FIRST_RULERS,
    LETTERED,
    NOT_AT_THE_END,
    ONLY_WITH_STOP,
    RULERS,
    RULING,
    STATES,
    TITLES,
)
from shared.speech.text.reading.full_stop import kept_stop
from shared.speech.text.reading.reader import Rule


def _title(match: re.Match[str]) -> str | None:
    return TITLES.get(match[1])


def _state(match: re.Match[str]) -> str | None:
    state = STATES.get(match[1])
    stop = kept_stop(match)
    return state and (None if stop and match[1] in NOT_AT_THE_END else state + stop)


def _street(match: re.Match[str]) -> str:
    kind = {"St": "Street", "Dr": "Drive"}[match["kind"]]
    return match["name"] + kind + kept_stop(match)


def _before_number(match: re.Match[str]) -> str | None:
    words = BEFORE_NUMBERS.get(match[1])
    return words and f"{words} {roman.value_of(match[2] or '') or match[2] or ''}"


def _abbreviation(match: re.Match[str]) -> str | None:
    words = ABBREVIATIONS.get(match[1])
    return words and words + kept_stop(match)


def _bare(match: re.Match[str]) -> str | None:
    return None if match[1] in ONLY_WITH_STOP else ABBREVIATIONS.get(match[1])


def _lettered(match: re.Match[str]) -> str:
    return LETTERED[match[1]] + (kept_stop(match) if match[1] == "Ph.D" else "")


def _bare_roman(match: re.Match[str]) -> str | None:
    value = roman.value_of(match.group())
    return str(value) if value and match.group() not in ("XX", "XXX") else None


# What follows a numeral I, and not the pronoun.
_ENDS = re.compile(r"[.,;:)\]]|\s*$|\s(?:of|and)\s")
_NO_PRONOUN = re.compile(r"[.,;:)\]'’–—-]|\s*$|\s(?:of|and|or|to|through|is|was|in|on)\b|\s[(–—-]")
_OF = re.compile(r"['’]s|\s(?:of|reigned|ruled|became)\b|\s\(")
_REIGNED = re.compile(
    r"[.,;:)\]'’]|\s*$|\s(?:of|reigned|ruled|became|was|had|died|who|and|in|on|to)\b|\s[(–—-]"
)


def _roman(match: re.Match[str]) -> str | None:
    before, title, name, numeral = match.group("before", "title", "name", "numeral")
    value = roman.value_of(numeral)
    if value == 0:
        return None
    if len(numeral) == 1 and re.match(r"\. [A-Z]", match.string[match.end() :]):
        return None  # an initial
    after = match.string[match.end() :]
    if name.lower() in COUNTED:
        if (
            numeral == "I"
            and name != "War"
            and not (_NO_PRONOUN if name[0].isupper() else _ENDS).match(after)
        ):
            return None  # "the part I like"
        return f"{before}{name} {value}" if len(numeral) > 1 or numeral in "IVX" else None
    if title or name in RULERS:
        is_known = title or name in FIRST_RULERS
        if value > 30 or (numeral == "I" and not (_REIGNED if is_known else _OF).match(after)):
            return None  # "When I met Henry I was young"
        return f"{before}{name} the {ordinal(value)}"
    return f"{before}{name} {value}" if len(numeral) > 1 and value < 40 else None


# What a new sentence begins with rather than a name: "on Main St. The shop"
_SENTENCE_WORDS = (
    "A|An|And|As|At|But|By|For|From|He|Her|His|How|If|In|Is|It|Its|My|No|Now|On|One|Our|She|So|That|The"
    "|Their|Then|There|They|This|To|Turn|We|What|When|Where|Who|Why|With|You|Your"
)
_RULES = [
    Rule(
        re.compile(
            rf"\b(?P<before>(?P<title>{'|'.join(RULING)})? ?)\b(?P<name>[A-Za-z][a-z]+) "
            rf"(?P<numeral>{roman.NUMERAL})\b(?![.’'-]\w)"
        ),
        _roman,
    ),
    Rule(re.compile(r"\b[IVX]{2,}\b(?! (?:drip|line|bag|fluid))"), _bare_roman),
    Rule(re.compile(rf"\b({'|'.join(map(re.escape, LETTERED))})\b(?!\.\w)\.?"), _lettered),
    Rule(re.compile(r"\b([A-Za-z]{1,5})\. ?(?:(?=\d)|([IVX]+)\b)"), _before_number),
    Rule(
        re.compile(
            r"(?P<name>\b(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th)) )(?P<kind>St|Dr)\."
            rf"(?! (?!(?:{_SENTENCE_WORDS})\b)[A-Z]\w)(?!\w)"
        ),
        _street,
    ),
    Rule(re.compile(r"(?<=[A-Za-z], )([A-Z][a-z]+)\.(?!\w)"), _state),
    Rule(re.compile(r"\b([A-Z][a-z]+)\.(?= (?:[A-Z]\.|[A-Z][a-z]|\d+(?:st|nd|rd|th)\b))"), _title),
    Rule(re.compile(r"\b([A-Za-z]+)\.(?!\w)"), _abbreviation),
    Rule(
        re.compile(r"(\b(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th)) )Ave\b(?!\.| Maria)"),
        lambda match: f"{match[1]}Avenue",
    ),
    Rule(re.compile(r"\b([A-Za-z]{2,6})\b(?![.'’-])"), _bare),
    Rule(re.compile(r"\b[A-Z]{2,5}\b"), lambda match: ACRONYMS.get(match.group())),
]

RULES = [rule._replace(has_number=False) for rule in _RULES]
