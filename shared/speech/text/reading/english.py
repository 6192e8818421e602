"""How English is read where espeak-ng reads otherwise: what is counted, measured and paid.

Calendar and clock are in `english_dates`, abbreviations in `english_names`.
"""

from __future__ import annotations

import re

from shared.speech.text.reading import addresses, english_dates, english_names
from shared.speech.text.reading.english_words import (
    CURRENCIES,
    FRACTIONS,
    MAGNITUDES,
    TENS,
    UNITS,
)
from shared.speech.text.reading.fractions import VULGAR
from shared.speech.text.reading.full_stop import kept_stop
from shared.speech.text.reading.reader import Rule

NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
_START = r"(?<![\w.,/])"
_SIGNS = {
    "@": "at", ".": "dot", "/": "slash", "-": "dash", "_": "underscore", ":": "colon",
    "+": "plus", "?": "question mark", "=": "equals", "&": "and", "#": "hash", "%": "percent",
    "~": "tilde",
}  # fmt: skip
_ARTICLE = re.compile(r"\b(?:an?|per|every|each)\s+$", re.IGNORECASE)
_WORD_AHEAD = re.compile(r"\s+[a-z]")
_NOUN_OF_SIZE = re.compile(
    r"\s+(?:fine|bill|ticket|fee|deal|tip|prize|grant|loan|check|note|gift|reward|bonus|citation|deposit"
    r"|discount|donation|budget|bail|settlement|contract|investment|project|bond|award|coin|drive|disk"
    r"|file|card|battery|monitor|screen|engine|motor|bottle|can|bag|box|race|run|walk|limit|zone|bulb|light|outlet|socket)s?\b"
)
_NO_NOUN = re.compile(
    r"\s+(?:of|in|on|at|to|and|or|from|for|by|with|per|is|was|are|were|a|an|the|more|less|after|than"
    r"|away|ago|long|later|old|per|each|for)\b"
)


def rules(language: str) -> list[Rule]:
    """All of English, first things first; `language` tells how dates are written."""
    return [
        Rule(addresses.EMAIL, _address, has_number=False),
        Rule(addresses.WEB, _address, has_number=False),
        Rule(addresses.BARE, _address, has_number=False),
        *_PHONES,
        *english_dates.calendar(day_first=language not in ("en", "en-us", "en-us-nyc")),
        *_MONEY,
        *_MEASURES,
        _DECADES,
        *english_dates.YEARS,
        *_FRACTIONS,
        *_NUMBERS,
        *english_names.RULES,
    ]


def _address(match: re.Match[str]) -> str:
    return addresses.dictated(match.group(), _SIGNS, {"A": "eh"})


def digits(text: str) -> str:
    """Digit by digit, the groups apart by a comma."""
    groups = re.findall(r"\d+", text)
    return ", ".join(" ".join(group) for group in groups)


def _phone(match: re.Match[str]) -> str:
    plus = "plus " if match.group().startswith("+") else ""
    return plus + digits(match.group())


_PHONES = [
    Rule(re.compile(r"(?<![\w.+-])\+\d{1,3}(?:[ .-]?\(?\d{1,5}\)?){2,6}(?![\w-])"), _phone),
    Rule(
        re.compile(r"(?<![\w.,$-])(?:1[-. ])?(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\w-])"),
        _phone,
    ),
    Rule(re.compile(r"(?<![\w.,$-])\d{3}-\d{4}(?![\w-])"), _phone),
    Rule(re.compile(r"(?<=\b[Cc]all )\b[1-9]11\b|(?<=\b[Dd]ial )\b[1-9]11\b|\b9-1-1\b"), _phone),
]


def _magnitude(text: str | None) -> str:
    return f" {MAGNITUDES[text]}" if text else ""


def _is_adjective(match: re.Match[str]) -> bool:
    """Whether it says of which size something is: "a $5 tip", "a 512 GB drive"."""
    after = match.string[match.end() :]
    if _NOUN_OF_SIZE.match(after):
        return True
    is_after_article = _ARTICLE.search(match.string[: match.start()]) and _WORD_AHEAD.match(after)
    return bool(is_after_article and not _NO_NOUN.match(after))


def _money(match: re.Match[str]) -> str:
    sign, name, low, amount, magnitude = match.group("sign", "name", "low", "amount", "magnitude")
    code = match.groupdict().get("code")
    currency = CURRENCIES[code if code and name == "$" else name]
    minus = "minus " if sign else ""
    whole, _, cents = amount.partition(".")
    is_one = whole == "1" and not cents.strip("0") and not magnitude and not low
    is_size = _is_adjective(match) or match["dash"] == "-"
    noun = currency.one if is_one or is_size else currency.many
    low = low and low.removesuffix(".00")
    begin = f"{low} to " if low else ""
    amount = amount.removesuffix(".00")
    if magnitude or low or len(cents) != 2:
        return f"{minus}{begin}{amount}{_magnitude(magnitude)} {noun}"
    hundredths = f"{int(cents)} {currency.cent if cents == '01' else currency.cents}"
    if not whole.strip("0"):
        return minus + hundredths
    noun = currency.one if whole == "1" else currency.many
    if currency.plain and int(cents) > 9:
        return f"{minus}{whole} {noun} {int(cents)}"
    return f"{minus}{whole} {noun} and {hundredths}"


_SIGN_OF_MONEY = "|".join(sorted(map(re.escape, CURRENCIES), key=len, reverse=True))
_MAGNITUDE = (
    rf"(?:(?P<dash>\s?|-)(?P<magnitude>{'|'.join(sorted(MAGNITUDES, key=len, reverse=True))})\b)?"
)
_MONEY = [
    Rule(
        re.compile(
            rf"(?<![\w.,])(?P<sign>[-−])?(?P<name>{_SIGN_OF_MONEY})\s?"
            rf"(?:(?P<low>{NUMBER})\s?[–-]\s?(?:{_SIGN_OF_MONEY})?)?(?P<amount>{NUMBER}){_MAGNITUDE}"
            r"(?:\s(?P<code>USD|CAD|AUD)\b)?(?!\d)"
        ),
        _money,
    ),
    Rule(
        re.compile(
            rf"{_START}(?P<sign>[-−])?(?:(?P<low>{NUMBER})\s?[–-]\s?)?(?P<amount>{NUMBER}){_MAGNITUDE}"
            rf"\s?(?P<name>[€£¥₹₩₽]|(?:USD|EUR|GBP|CHF|JPY|INR|CAD|AUD)\b)"
        ),
        _money,
    ),
]


def _measure(match: re.Match[str]) -> str:
    sign, low, amount, gap, per = match.group("sign", "low", "amount", "gap", "per")
    unit = UNITS[_SPACE_IN_DEGREES.sub("°", (match["unit"] or match["apart"]).strip())]
    is_one = amount == "1" and not low
    noun = unit.one if is_one or gap == "-" or _is_adjective(match) else unit.many
    if per:
        noun += f" per {UNITS[per].one}"
    begin = f"{low} to " if low else ""
    return f"{'minus ' if sign else ''}{begin}{amount} {noun}" + kept_stop(match)


def _feet(match: re.Match[str]) -> str:
    return f"{match[1]} foot {match[2]}"


_QUOTED = re.compile(r"(?:^|[\s(])\"[^\"]*$")


def _inches(match: re.Match[str]) -> str | None:
    if match.group().endswith('"') and _QUOTED.search(match.string[: match.start()]):
        return None
    noun = "inch" if match[1] == "1" or _is_adjective(match) else "inches"
    return f"{match[1]} {noun}"


def _by(match: re.Match[str]) -> str:
    return " by "


_UNIT = "|".join(
    sorted(
        (re.escape(name) for name in UNITS if name not in ("s", "t", "L", "W", "V")),
        key=len,
        reverse=True,
    )
)
_SPACE_IN_DEGREES = re.compile(r"°\s")
_AFTER_FEET = r"(?<=ft )|(?<=ft\. )|(?<=feet )|(?<=foot )"
_MEASURES = [
    Rule(re.compile(r"(?<![\w.,])(\d{1,2})['′]\s?(\d{1,2})(?:[\"″]|'')?(?!\w)"), _feet),
    Rule(
        re.compile(rf"{_START}({NUMBER})(?:[\"″]|''?′)(?=[\s,.;)]|$)"),
        _inches,
    ),
    Rule(re.compile(rf"(?:{_AFTER_FEET})(\d{{1,2}}) in\b\.?"), _inches),
    Rule(
        re.compile(
            rf"{_START}({NUMBER}) in\b\.?(?=\s(?:tall|wide|long|high|deep|thick|of rain|of snow))"
        ),
        _inches,
    ),
    Rule(
        re.compile(
            r"(?<=\d)\s?[x×]\s?(?=\d[\d.,]*\s?(?:(?:mm|cm|m|in|ft|km)\b|[x×\"″]))|(?<=\d)x(?=\d)"
        ),
        _by,
    ),
    Rule(
        re.compile(
            rf"(?<![\w.,/])(?P<sign>[-−])?(?:(?P<low>{NUMBER})\s?[–—-]\s?)?(?P<amount>{NUMBER}(?: (?:thousand|[mb]illion))?)"
            rf"(?:(?P<gap>\s?|-)(?P<unit>°\s?[CF]\b|{_UNIT})|(?P<apart>\s[stL]|\s?[WV])(?!\s[A-Z\d]))"
            rf"(?:/(?P<per>{_UNIT}|s))?(?![\w/²³'’°])(?:\.(?!\w))?"
        ),
        _measure,
    ),
]


def _fraction_in_words(top: int, bottom: int) -> str | None:
    names = FRACTIONS.get(bottom)
    if names is None or not 0 < top < bottom:
        return None
    return f"{top} {names[top > 1]}"


def _fraction(match: re.Match[str]) -> str | None:
    whole, top, bottom = match["whole"], int(match["top"]), int(match["bottom"])
    if (top, bottom) == (24, 7):
        return "24 7"
    if (top, bottom) == (9, 11):
        return "9 11"
    return _mixed(match, whole, top, bottom)


def _vulgar(match: re.Match[str]) -> str | None:
    return _mixed(match, match["whole"], *VULGAR[match["sign"]])


def _mixed(match: re.Match[str], whole: str | None, top: int, bottom: int) -> str | None:
    """A whole number and a fraction, with the unit that follows."""
    words = _fraction_in_words(top, bottom)
    if words is None:
        return None
    if whole:
        words = f"{whole.strip()} and {'a half' if bottom == 2 else words}"
    if not match["unit"]:
        return words
    unit = UNITS[match["unit"]]
    return f"{words} {unit.many if whole else unit.one}" + kept_stop(match)


_UNIT_AFTER = rf"(?:[\s-](?P<unit>{_UNIT})(?![\w/²³'’°])(?:\.(?!\w))?)?"
_FRACTIONS = [
    Rule(
        re.compile(rf"(?<![\w.,])(?P<whole>\d+\s?)?(?P<sign>[{''.join(VULGAR)}]){_UNIT_AFTER}"),
        _vulgar,
    ),
    Rule(
        re.compile(
            r"(?<![\w.,/-])(?P<whole>\d+ )?(?P<top>\d{1,3})/(?P<bottom>\d{1,3})(?![\w/]|[.,]\d)"
            + _UNIT_AFTER
        ),
        _fraction,
    ),
]


def _decade(match: re.Match[str]) -> str:
    century, tens = match[1], int(match[2])
    if century and tens == 0:
        return f"{int(century) // 10} thousands" if century[1] == "0" else f"{century} hundreds"
    if tens == 0:
        return "two thousands"
    decade = "tens" if tens == 1 else TENS[tens]
    return f"{century} {decade}" if century else decade


def _score(match: re.Match[str]) -> str | None:
    low, dash, high = match[1], match[2], match[3]
    before = match.string[: match.start()]
    is_score = re.search(
        r"\b(?:w[io]ns?|lost|beat|lead|led|draw|drew|tied|score|ahead)\b[^.,;]*$", before
    )
    if is_score or (
        dash.strip() == "-" and not dash.startswith(" ") and _value(low) >= _value(high)
    ):
        return f"{low} {high}"
    return f"{low} to {high}"


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _large_ordinal(match: re.Match[str]) -> str | None:
    number = match[1].replace(",", "")
    for zeros, name in ((6, "millionth"), (3, "thousandth"), (2, "hundredth")):
        if number.endswith("0" * zeros):
            return f"{number[:-zeros]} {name}"
    return None


_PERIODS = "day|week|month|year|hour|night|person|minute|second|gallon|pound"
_AMOUNT_BEFORE = re.compile(r"\d[\w.,]*(?: [a-z]+)?$")
_PER_UNIT = ("lb", "kg", "oz", "gal", "sq ft", "ft", "mi", "hr", "yr", "mo", "wk", "min", "m²")


def _per(match: re.Match[str]) -> str | None:
    """ "$100/day", "8 hrs/week"."""
    if not _AMOUNT_BEFORE.search(match.string[: match.start()]):
        return None
    return f" per {UNITS[match['unit']].one}" + kept_stop(match) if match["unit"] else " per "


_DECADES = Rule(re.compile(r"(?<![\w.,$])['’‘]?(\d\d)?(\d)0['’]?s(?!\w)"), _decade)
_NUMBERS = [
    Rule(re.compile(r"(?<![\w.,])(\d[\d,]*00)th\b"), _large_ordinal),
    Rule(re.compile(r"(?<![\w.,])\.(\d+)(?![\w.])"), lambda m: f"point {' '.join(m[1])}"),
    Rule(
        re.compile(r"(?<![\w.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?![\w.]\d)"),
        lambda m: " dot ".join(m.groups()),
    ),
    Rule(re.compile(r"(?<![\w.,:/-])(\d+):(\d)(?![\w:])"), lambda m: f"{m[1]} to {m[2]}"),
    Rule(re.compile(r"(?<![\w.,])(\d+(?:\.\d+)?)x(?!\w)"), lambda m: f"{m[1]} times"),
    Rule(re.compile(rf"(?<![\w.,/–-])({NUMBER})(\s?–\s?|-)({NUMBER})(?![\w/–-])"), _score),
    Rule(re.compile(r"(?<![\w&])#\s?(?=\d)"), lambda m: "number "),
    Rule(re.compile(r"(?<!\S)−(?=\d)"), lambda m: "minus "),
    Rule(re.compile(rf"/(?:(?=(?:{_PERIODS})\b)|(?P<unit>{'|'.join(_PER_UNIT)})(?!\w)\.?)"), _per),
    Rule(re.compile(r"\bw/o\b"), lambda m: "without", has_number=False),
    Rule(re.compile(r"\bw/(?=\s?[a-z])\s?"), lambda m: "with ", has_number=False),
]
