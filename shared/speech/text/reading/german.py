"""How German is read where espeak-ng reads otherwise: what is counted, measured and paid.

Calendar and clock are in `german_dates`, ordinals and abbreviations in modules of their own.
"""

from __future__ import annotations

import re

from shared.speech.text.reading import addresses, german_dates, german_names, german_ordinals
from shared.speech.text.reading.fractions import VULGAR
from shared.speech.text.reading.full_stop import at_the_end
from shared.speech.text.reading.german_ordinals import is_feminine
from shared.speech.text.reading.german_words import (
    CURRENCIES,
    FRACTIONS,
    MAGNITUDES,
    NUMBER_WORDS,
    PER,
    UNITS,
)
from shared.speech.text.reading.reader import Rule

NUMBER = r"(?:\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+(?:,\d+)?)"
_START = r"(?<![\w.,/:])"
_SIGNS = {
    "@": "ätt", ".": "Punkt", "/": "Schrägstrich", "-": "Minus", "_": "Unterstrich",
    ":": "Doppelpunkt", "+": "plus", "?": "Fragezeichen", "=": "gleich", "&": "und", "#": "Raute",
    "%": "Prozent", "~": "Tilde",
}  # fmt: skip


def rules(language: str) -> list[Rule]:
    """All of German, first things first."""
    return [
        Rule(addresses.EMAIL, _address, has_number=False),
        Rule(addresses.WEB, _address, has_number=False),
        Rule(addresses.BARE, _address, has_number=False),
        *_PHONES,
        *german_dates.RULES,
        *_MONEY,
        *_MEASURES,
        *_FRACTIONS,
        *_NUMBERS,
        *german_ordinals.RULES,
        *german_names.RULES,
    ]


def _address(match: re.Match[str]) -> str:
    return addresses.dictated(match.group(), _SIGNS, {})


def _phone(match: re.Match[str]) -> str:
    plus = "plus " if match.group().startswith("+") else ""
    return plus + ", ".join(" ".join(group) for group in re.findall(r"\d+", match.group()))


_PHONES = [
    Rule(
        re.compile(
            r"(?<![\w.+-])(?:\+|00)\d{1,3}(?:[ ./-]{1,3}(?:\(\d{1,4}\)\s?)?\d{1,11}){1,6}(?![\w/-])"
        ),
        _phone,
    ),
    Rule(
        re.compile(
            r"(?<![\w.,/-])\(?0\d{1,5}\)?(?:\s?[/–-]\s?|\s)\d{2,9}(?:[ -]\d{2,9}){0,4}(?![\w-]|[.,:]\d)"
        ),
        _phone,
    ),
    Rule(re.compile(r"(?<![\w.,/-])0\d{6,13}(?![\w-]|[.,:]\d)"), _phone),
    Rule(re.compile(r"(?<=\bdie )(11[0-9])\b(?=[^.!?]*\b(?:wähl|anruf|ruf))"), _phone),
    Rule(re.compile(r"(?<=\bNotruf )(11[0-9])\b"), _phone),
]


def _magnitude(amount: str, name: str) -> str:
    one, many = MAGNITUDES[name]
    return one if amount == "1" else f"{amount} {many}"


def _money(match: re.Match[str]) -> str:
    sign, low, amount, magnitude = match.group("sign", "low", "amount", "magnitude")
    currency = CURRENCIES[match["name"]]
    minus = "minus " if sign else ""
    whole, _, cents = amount.partition(",")
    per = f" pro {PER[match['per']]}" if match["per"] else ""
    end = at_the_end(match)
    if magnitude:
        begin = f"{low} bis " if low else ""
        return f"{minus}{begin}{_magnitude(amount, magnitude)} {currency.name}{per}{end}"
    if low:
        return f"{low} bis {amount} {currency.name}{per}{end}"
    if len(cents) == 2 and cents != "00":
        if whole == "0":
            return f"{minus}{int(cents)} {currency.cent}{per}{end}"
        return f"{minus}{_one(whole)} {currency.name} {int(cents)}{per}{end}"
    amount = whole if not cents.strip("0") else amount
    return f"{minus}{_one(amount)} {currency.name}{per}{end}"


def _one(amount: str) -> str:
    return "ein" if amount == "1" else amount


_SIGN_OF_MONEY = "|".join(
    sorted((re.escape(name) for name in CURRENCIES if name != "Fr."), key=len, reverse=True)
)
_NAME_OF_MONEY = "|".join(sorted(map(re.escape, CURRENCIES), key=len, reverse=True))
_MAGNITUDE = rf"(?:\s?(?P<magnitude>{'|'.join(sorted(MAGNITUDES, key=len, reverse=True))})\b\.?)?"
_PER = "|".join(sorted(PER, key=len, reverse=True))
_PER_SOMETHING = rf"(?:\s?/\s?(?P<per>{_PER})(?![\w²³]))?"
_LOW = rf"(?:(?P<low>{NUMBER})\s?[–—-]\s?)?"
_NO_CENTS = r"(?:,(?:-|–|—)+)?"
_MONEY = [
    Rule(
        re.compile(
            rf"{_START}(?P<sign>[-−](?=\d))?{_LOW}(?P<amount>{NUMBER}){_NO_CENTS}{_MAGNITUDE}\s?"
            rf"(?P<name>{_NAME_OF_MONEY})(?!\w){_PER_SOMETHING}"
        ),
        _money,
    ),
    Rule(
        re.compile(
            rf"(?<!\w)(?P<sign>[-−])?(?P<name>{_SIGN_OF_MONEY})\s?{_LOW}(?P<amount>{NUMBER}){_NO_CENTS}"
            rf"{_MAGNITUDE}{_PER_SOMETHING}(?!\w)"
        ),
        _money,
    ),
    Rule(
        re.compile(
            rf"{_START}({NUMBER})\s?({'|'.join(sorted(MAGNITUDES, key=len, reverse=True))})\b\.?"
        ),
        lambda match: _magnitude(match[1], match[2]) + at_the_end(match),
    ),
]


def _measure(match: re.Match[str]) -> str:
    sign, low, amount, per, per_amount = match.group("sign", "low", "amount", "per", "per_amount")
    unit = UNITS[_SPACE_IN_DEGREES.sub("°", match["unit"] or match["apart"])]
    minus = "minus " if sign else ""
    said = f"{low} bis {amount} {unit.many}" if low else f"{amount} {unit.many}"
    if amount == "1" and not low:
        said = unit.one
    if per:
        said += f" pro {per_amount}{PER[per]}" if per_amount else f" pro {PER[per]}"
    return minus + said + at_the_end(match)


def _times(match: re.Match[str]) -> str:
    return " mal "


_SPACE_IN_DEGREES = re.compile(r"°\s")
_UNIT = "|".join(
    sorted(
        (re.escape(name) for name in UNITS if name not in ("s", "t", "L", "°C", "°F")),
        key=len,
        reverse=True,
    )
)
_MEASURES = [
    Rule(re.compile(r"(?<=\d)\s?[x×]\s?(?=\d)"), _times),
    Rule(
        re.compile(
            rf"(?<![\w.,/:])(?P<sign>[-−](?=\d))?{_LOW}(?P<amount>{NUMBER})"
            rf"(?:(?:\s|-)?(?P<unit>°\s?[CF]\b|{_UNIT})|\s(?P<apart>[stL]))"
            rf"(?:/(?P<per_amount>\d+ )?(?P<per>{_PER}))?(?![\w/²³'’°])(?:\.(?!\w))?"
        ),
        _measure,
    ),
]


def _in_words(number: int) -> str:
    return NUMBER_WORDS[number] if number < len(NUMBER_WORDS) else str(number)


_NOUN = re.compile(r" ([^\W\d_]+)")
_NEUTER = re.compile(
    r"(?:[Gg]ramm|Pfund|Kilo|Jahr|Glas|Stück|Dutzend|byte|Byte|Bund|Blech|Päckchen|Brot)$"
)
_MASCULINE = re.compile(
    r"(?:[Mm]eter|[Ll]iter|löffel|Tag|Monat|Becher|Bund|Apfel|Würfel|Teil|Kopf)$"
)


def _half(noun: str) -> str:
    """ "ein halber Liter", "eine halbe Stunde", and "ein halb" where nobody knows."""
    if _MASCULINE.search(noun):
        return "ein halber"
    if _NEUTER.search(noun):
        return "ein halbes"
    return "eine halbe" if is_feminine(noun) else "ein halb"


def _fraction(top: int, bottom: int, noun: str = "") -> str | None:
    name = FRACTIONS.get(bottom)
    if name is None or not 0 < top < bottom:
        return None
    if (top, bottom) == (1, 2):
        return _half(noun)
    return f"ein {name}" if top == 1 else f"{_in_words(top)} {name}"


def _slash(match: re.Match[str]) -> str | None:
    top, bottom = int(match["top"]), int(match["bottom"])
    return "24 7" if (top, bottom) == (24, 7) else _mixed(match, top, bottom)


def _vulgar(match: re.Match[str]) -> str | None:
    return _mixed(match, *VULGAR[match["sign"]])


def _mixed(match: re.Match[str], top: int, bottom: int) -> str | None:
    """A whole number and a fraction, with the unit that follows."""
    whole, unit = match["whole"], UNITS.get(match["unit"] or "")
    ahead = _NOUN.match(match.string, match.end())
    noun = unit.one.partition(" ")[2] if unit else ahead[1] if ahead else ""
    words = _fraction(top, bottom, noun)
    if words is None:
        return None
    if whole:
        is_half = (top, bottom) == (1, 2)
        words = f"{_in_words(int(whole))}einhalb" if is_half else f"{whole.strip()} {words}"
    if not unit:
        return words
    return f"{words} {unit.many if whole else noun}" + at_the_end(match)


_UNIT_AFTER = rf"(?:\s(?P<unit>{_UNIT})(?![\w/²³'’°])(?:\.(?!\w))?)?"
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
        _slash,
    ),
]


_LABEL = re.compile(
    r"\b(?:Seite|Kapitel|Platz|Band|Teil|Nummer|Klasse|Zimmer|Gleis|Linie|Tag|Woche|Stufe|Typ|Runde|Liga"
    r"|Spieltag|Abschnitt|Punkt|Aufgabe|Frage|Test|Block|Halle|Tor|Ausgabe|Phase|Level|Stock|Raum|Version"
    r"|Abbildung|Tabelle|Folge|Staffel|Artikel|Absatz|Paragraf|Nr\.|Lektion|Übung|Regel|Schritt) $"
)


def _article(match: re.Match[str]) -> str | None:
    """1 before a noun: "ein Apfel", "eine Birne", but "Kapitel 1 Anfang"."""
    if _LABEL.search(match.string[: match.start()]):
        return None
    noun = _NOUN.match(match.string, match.end())
    return "eine" if noun and is_feminine(noun[1]) else "ein"


_NUMBERS = [
    Rule(re.compile(r"(?<![\w.,:/-])(\d{1,3}):(\d{1,2})(?![\w:])"), lambda m: f"{m[1]} zu {m[2]}"),
    Rule(re.compile(r"(?<![\w.,])(\d+(?:,\d+)?)\s?x(?!\w)"), lambda m: f"{m[1]} mal"),
    Rule(
        re.compile(rf"(?<![\w.,/–:-])({NUMBER})(?:\s?[–—]\s?|-)({NUMBER})(?![\w/–-])"),
        lambda m: f"{m[1]} bis {m[2]}",
    ),
    Rule(re.compile(r"(?<![^\s(„\"])1(?= [A-ZÄÖÜ][a-zäöüß]+)"), _article),
    Rule(re.compile(r"(?<!\S)−(?=\d)"), lambda m: "minus "),
    Rule(re.compile(r"(?<![\w&])#\s?(?=\d)"), lambda m: "Nummer "),
    Rule(re.compile(r"(?<=\d),(?:-|–|—)+(?!\d)"), lambda m: " Euro"),
    Rule(re.compile(r"(?<=\d) J\.(?!\w)"), lambda m: " Jahre" + at_the_end(m)),
    Rule(
        re.compile(rf"\b(je|pro) ({_PER})(?![\w²³/]|\.\w)"),
        lambda m: f"{m[1]} {PER[m[2]]}",
        has_number=False,
    ),
    Rule(re.compile(r"§§\s?(?=\d)"), lambda m: "Paragrafen "),
    Rule(
        re.compile(r"(?<![\w.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?![\w.]\d)"),
        lambda m: " Punkt ".join(m.groups()),
    ),
]
