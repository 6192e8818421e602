"""German ordinals with the ending that their place in the sentence wants: "am 3. Mai", "der 3. Mai"."""

from __future__ import annotations

import re

from shared.speech.text.reading import roman
from shared.speech.text.reading.full_stop import SENTENCE_WORDS, kept_stop
from shared.speech.text.reading.german_words import DAYS, MONTH_NAMES
from shared.speech.text.reading.reader import Rule, words

_STEMS = (
    "nullt", "erst", "zweit", "dritt", "viert", "fünft", "sechst", "siebt", "acht", "neunt", "zehnt",
    "elft", "zwölft", "dreizehnt", "vierzehnt", "fünfzehnt", "sechzehnt", "siebzehnt", "achtzehnt",
    "neunzehnt",
)  # fmt: skip
_TENS = {
    2: "zwanzigst", 3: "dreißigst", 4: "vierzigst", 5: "fünfzigst", 6: "sechzigst", 7: "siebzigst",
    8: "achtzigst", 9: "neunzigst",
}  # fmt: skip
_NEUTER = words(
    "Jh Jhd Jhdt Jhs Kind Mal Jahr Buch Haus Tor Spiel Quartal Kapitel Semester Halbjahr Jahrhundert Jahrzehnt "
    "Jahrtausend Album Auto Bier Glas Stück Treffen Lied Bild Zimmer Gebot Lebensjahr Studienjahr "
    "Schuljahr Halbfinale Viertelfinale Obergeschoss Untergeschoss OG UG Trimester Drittel Viertel "
    "Rennen Training Semifinale Ministerium Regiment Bataillon Symposium Festival"
)
_FEMININE_END = re.compile(
    r"(?:e|ung|heit|keit|schaft|ion|tät|ik|ei|[Ll]iga|Kultur|Natur|Wahl|Zahl|Nacht|Stadt|Welt|Hand"
    r"|Arbeit|Frau|Mutter|Tochter|Schwester|Tür|Person|Bank|Wand|Form|Art|Uhr|Feder|Nummer|Steuer)$"
)
_FEMININE_NOT = words("Name Junge Kollege Kunde Ende Auge Interesse Ergebnisse")
# After these, every gender and case but the plainest has "-en".
_WEAK_EN = words(
    "am im vom von zum beim dem den des zur einem einen einer eines jedem jeden meinem meinen meiner "
    "seinem seinen seiner ihrem ihren ihrer unserem unseren unserer eurem euren eurer deinem deinen "
    "deiner keinem keinen keiner diesem diesen dieser allen bis ab seit vom nach vor um aufm überm "
    "unterm hinterm beiden"
)
_WEAK_E = words(
    "der die das jede jedes jeder diese dieses eine meine deine seine ihre unsere eure keine ins ans "
    "aufs fürs ums durchs welche welches"
)
_STRONG = words("ein mein dein sein ihr unser euer kein")
_PREPOSITION = re.compile(
    r"\b(?:in|an|auf|aus|bei|mit|nach|seit|von|zu|vor|hinter|neben|über|unter|zwischen|während|wegen"
    r"|ab|bis|außer|gegenüber|trotz|innerhalb|außerhalb|anlässlich|Ende|Anfang|Mitte|dank|laut)\s+der\s*$",
    re.IGNORECASE,
)
_REACH = 200  # characters before an ordinal that have a say
_LAST_WORD = re.compile(r"([^\W\d]+)[\s(„\"']*$")
# "der 1., 2. und 3. Platz", "vom 2. bis zum 15. August": the first word tells for all of them.
_OTHERS = re.compile(r"(?:(?<![\d.])\d{1,4}\.(?:,| und| oder| bis| –|-)\s?)+$")
_WEEKDAY = re.compile(rf"\b(?:{'|'.join([*DAYS, *DAYS.values()])})\.?,?\s*$")
# What an ordinal without any word before it, or with a weekday, is asked after.
_AT_A_TIME = re.compile(r"\b(?:am|vom|zum|bis|ab|seit|den|dem|beim)\b[^.;:]*$", re.IGNORECASE)
_NOUNS = (
    "Jahrhundert|Jahrtausend|Jahrzehnt|Jahrestag|Klasse|Stock|Stockwerk|Etage|Platz|Kapitel|Mal|Tag"
    "|Woche|Geburtstag|Reihe|Runde"
    "|Liga|Bundesliga|Weltkrieg|Advent|Auflage|Semester|Quartal|Halbjahr|Stelle|Schritt|Teil|Band|Akt"
    "|Minute|Spieltag|Rang|Versuch|Etappe|Mannschaft|Lebensjahr|Schuljahr|Obergeschoss|Kind|Preis"
    "|Staffel|Folge|Ausgabe|Hälfte|Bezirk|Armee|Kongress|Welle|Generation|Dan|Grad|Monat|Jahr|Gang"
    "|OG|Jhd|Jh|Jhdt|Jhs|FC"
)
_ARTICLES = "|".join(
    sorted(
        (_WEAK_EN - words("ab bis seit nach vor um von")) | _WEAK_E | _STRONG, key=len, reverse=True
    )
)


def in_words(number: int, ending: str) -> str:
    """An ordinal, its parts apart so that espeak-ng reads each of them well."""
    rest = number % 100
    if rest == 0 and number:
        name, size = ("tausendst", 1000) if number % 1000 == 0 else ("hundertst", 100)
        before = f"{number // size} " if number // size > 1 else ""
        return before + name + ending
    before = f"{number - rest} " if number > 99 else ""
    if rest < 20:
        return before + _STEMS[rest] + ending
    tens, ones = _TENS[rest // 10] + ending, rest % 10
    return before + (f"{ones if ones > 1 else 'ein'} und {tens}" if ones else tens)


def is_feminine(noun: str) -> bool:
    """By its ending; a guess that is right more often than not."""
    return bool(_FEMININE_END.search(noun)) and noun not in _FEMININE_NOT


def ending_of(before: str, noun: str = "") -> str:
    """-e, -en, -er or -es: what the text `before` and the noun behind ask for."""
    before = before[-_REACH:].rstrip() + " "
    before = _WEEKDAY.sub("", _OTHERS.sub("", before)).rstrip()
    found = _LAST_WORD.search(before)
    word = found[1].lower() if found else ""
    is_neuter = noun in _NEUTER
    if word == "der" and (_PREPOSITION.search(before) or is_feminine(noun) or is_neuter):
        return "en"
    if word in _WEAK_E:
        return "e"
    if word in _WEAK_EN:
        return "en"
    if word in _STRONG or not _AT_A_TIME.search(before):
        return "es" if is_neuter else "e" if is_feminine(noun) else "er"
    return "en"


def _ordinal(match: re.Match[str]) -> str:
    begin = match.start("number")
    noun = _NOUN_AHEAD.match(match.string, match.end())
    ending = ending_of(match.string[:begin], noun[1] if noun else "")
    return match.string[match.start() : begin] + in_words(int(match["number"]), ending)


def _roman(match: re.Match[str]) -> str | None:
    """ "im II. Weltkrieg"."""
    value, begin = roman.value_of(match["numeral"]), match.start("numeral")
    if not value:
        return None
    noun = _NOUN_AHEAD.match(match.string, match.end())
    ending = ending_of(match.string[:begin], noun[1] if noun else "")
    return match.string[match.start() : begin] + in_words(value, ending)


def _predicate(match: re.Match[str]) -> str:
    return in_words(int(match["number"]), "er") + kept_stop(match)


_NOUN_AHEAD = re.compile(r"\s+([^\W\d_]+)")
_NUMBER = r"(?<![\w.,/:-])(?P<number>\d{1,4})\."
RULES = [
    Rule(re.compile(r"(?<=\bwurde |.\bwird )(?P<number>\d{1,2})\.(?!\w)"), _predicate),
    Rule(re.compile(rf"{_NUMBER}(?=\s+(?:{_NOUNS}|{'|'.join(MONTH_NAMES)})\b)"), _ordinal),
    Rule(
        re.compile(
            rf"\b(?i:{_ARTICLES})\s+{_NUMBER}(?=\s+(?!(?:{SENTENCE_WORDS})\b)[^\W\d_]{{2,}})"
        ),
        _ordinal,
    ),
    Rule(
        re.compile(
            rf"\b(?=\w+\s+[IVX]+\.)(?i:{_ARTICLES})\s+"
            r"(?P<numeral>[IVX]+)\.(?=\s+[A-ZÄÖÜ][a-zäöü])"
        ),
        _roman,
        has_number=False,
    ),
    # "vom 2. bis zum 15.", "der 1., 2. und 3. Platz"
    Rule(re.compile(rf"{_NUMBER}(?=,? (?:und|oder|bis|–) |, \d{{1,3}}\.)"), _ordinal),
]
