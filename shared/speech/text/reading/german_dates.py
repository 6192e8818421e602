"""How German reads the calendar and the clock: dates, years, times of the day."""

from __future__ import annotations

import re

from shared.speech.text.reading.full_stop import at_the_end
from shared.speech.text.reading.german_ordinals import ending_of, in_words
from shared.speech.text.reading.german_words import DAYS, MONTH_NAMES, MONTHS
from shared.speech.text.reading.reader import Rule

_MONTH = "|".join(sorted(MONTH_NAMES, key=len, reverse=True))
_SHORT_MONTHS = MONTH_NAMES.keys() - set(MONTHS) - {each.lower() for each in MONTHS}
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_DAYS = "|".join(DAYS)
_START = r"(?<![\w.,/:-])"


def year_in_words(year: str) -> str:
    """1984 as "19 hundert 84"; 2005 and 1066 stay as they are."""
    if len(year) != 4 or not "11" <= year[:2] <= "19":
        return year
    return f"{year[:2]} hundert" + (f" {int(year[2:])}" if year[2:] != "00" else "")


def _numbers(match: re.Match[str]) -> str | None:
    """3.4.2025 as "dritten vierten 2025"."""
    day, month, year = int(match["day"]), int(match["month"]), match["year"]
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return None
    ending = ending_of(match.string[: match.start()])
    if len(year) == 2:
        year = f"{19 if int(year) >= 50 else 20}{year}"
    said = f"{in_words(day, ending)} {in_words(month, ending)} {year_in_words(year)}"
    return said.rstrip() + at_the_end(match)


def _day_month(match: re.Match[str]) -> str:
    ending = ending_of(match.string[: match.start()], "Monat")
    year = f" {year_in_words(match['year'])}" if match["year"] else ""
    return (
        f"{in_words(int(match['day']), ending)} {MONTH_NAMES[match['month']]}{year}"
        + at_the_end(match)
    )


def _month_year(match: re.Match[str]) -> str:
    return f"{MONTH_NAMES[match[1]]} {year_in_words(match[2])}"


def _month(match: re.Match[str]) -> str | None:
    return MONTH_NAMES[match[1]] + at_the_end(match) if match[1] in _SHORT_MONTHS else None


def _days(match: re.Match[str]) -> str:
    between = "und" if match[2] in ("+", "&", "u.", "und") else "bis"
    return f"{DAYS[match[1]]} {between} {DAYS[match[3]]}"


def _day(match: re.Match[str]) -> str:
    return DAYS[match[1]] + ("," if match.group().endswith(",") else "")


def _clock(hour: str, minute: str | None) -> str:
    said = "ein Uhr" if int(hour) == 1 else f"{int(hour)} Uhr"
    return f"{said} {int(minute)}" if minute and int(minute) else said


def _time(match: re.Match[str]) -> str:
    return _clock(match["hour"], match["minute"])


def _times(match: re.Match[str]) -> str:
    hour, minute, end, end_minute = match.group("hour", "minute", "end", "end_minute")
    begin = _clock(hour, minute) if minute and int(minute) else str(int(hour))
    return f"{begin} bis {_clock(end, end_minute)}"


def _years(match: re.Match[str]) -> str:
    return f"{year_in_words(match[1])} bis {year_in_words(match[2])}"


def _two_years(match: re.Match[str]) -> str:
    return f"{year_in_words(match[1])} {year_in_words(match[2])}"


def _span(match: re.Match[str]) -> str:
    """ "3.–5. Oktober", "vom 3.–5.10.2024"."""
    first, last, rest = int(match["first"]), int(match["day"]), match["month"]
    ending = ending_of(match.string[: match.start()], "Monat")
    month = MONTH_NAMES[rest] if rest in MONTH_NAMES else in_words(int(rest), ending)
    space = " " if match.string[match.end() :][:1].isdigit() else ""
    return f"{in_words(first, ending)} bis {in_words(last, ending)} {month}{space}"


def _year(match: re.Match[str]) -> str:
    return year_in_words(match[1])


_HOUR, _MINUTE = r"(?:[01]?\d|2[0-4])", r"[0-5]\d"
_DATE_AHEAD = rf",? \d\d?(?:\.\s?\d\d?\.|\. (?:{_MONTH})\b|:\d\d|[.:]\d\d Uhr)"
_DASH = r"\s?[–—-]\s?"
RULES = [
    Rule(
        re.compile(
            rf"{_START}(?P<first>{_DAY})\.\s?[–-]\s?(?P<day>{_DAY})\.\s?"
            rf"(?P<month>(?:{_MONTH})\b|(?:0?[1-9]|1[0-2])\b(?=\.))\.?"
        ),
        _span,
    ),
    Rule(re.compile(r"(?<![\w-])(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?![\w-])"), _numbers),
    Rule(
        re.compile(
            rf"{_START}(?P<day>{_DAY})\.\s?(?P<month>0?[1-9]|1[0-2])\.\s?(?P<year>\d{{4}}|\d\d(?![\d:]))(?!\w|[.,]\d)"
        ),
        _numbers,
    ),
    Rule(
        re.compile(rf"{_START}(?P<day>{_DAY})\.(?P<month>0?[1-9]|1[0-2])\.(?P<year>)(?![\w])"),
        _numbers,
    ),
    Rule(
        re.compile(
            rf"{_START}(?P<day>{_DAY})\. ?(?P<month>{_MONTH})\b(?:(?<=\b...)\.|(?<=\b....)\.)?"
            r"(?: (?P<year>1\d\d\d|20\d\d)(?![\d.,:]\d))?(?!\w)"
        ),
        _day_month,
    ),
    Rule(re.compile(rf"\b({_MONTH})\b\.? (1[1-9]\d\d|20\d\d)(?![\w:/]|[.,]\d)"), _month_year),
    Rule(re.compile(r"\b([A-Za-zä]{3,5})\.(?!\w)"), _month, has_number=False),
    Rule(
        re.compile(rf"\b({_DAYS})\b\.?\s?([–—+&-]|bis|u\.|und)\s?({_DAYS})\b\.?(?![\w])"),
        _days,
        has_number=False,
    ),
    Rule(re.compile(rf"(?<=\bam )({_DAYS})\.(?! [A-ZÄÖÜ][a-zäöü])"), _day, has_number=False),
    Rule(re.compile(rf"\b({_DAYS})(?:\.,|\.(?= \d)|(?={_DATE_AHEAD}))"), _day, has_number=False),
    Rule(
        re.compile(
            rf"{_START}(?P<hour>{_HOUR})(?:[:.](?P<minute>{_MINUTE}))?{_DASH}"
            rf"(?P<end>{_HOUR})(?:[:.](?P<end_minute>{_MINUTE}))?\s?(?:Uhr|h)\b"
        ),
        _times,
    ),
    Rule(
        re.compile(
            rf"{_START}(?P<hour>{_HOUR}):(?P<minute>{_MINUTE}){_DASH}(?P<end>{_HOUR}):(?P<end_minute>{_MINUTE})(?![\w:])"
        ),
        _times,
    ),
    Rule(
        re.compile(rf"{_START}({_HOUR}):({_MINUTE}):([0-5]\d)(?:\s?Uhr\b)?(?![\w:])"),
        lambda match: f"{_clock(match[1], match[2])} und {int(match[3])} Sekunden",
    ),
    Rule(re.compile(rf"{_START}(?P<hour>{_HOUR})[:.](?P<minute>{_MINUTE})\s?(?:Uhr|h)\b"), _time),
    Rule(re.compile(rf"{_START}(?P<hour>{_HOUR}):(?P<minute>{_MINUTE})(?![\w:])"), _time),
    Rule(re.compile(r"(?<![\w.,/:-])(?P<hour>0?1) Uhr(?: (?P<minute>[0-5]?\d)\b(?!\.))?"), _time),
    Rule(
        re.compile(rf"{_START}(1\d\d\d|20\d\d){_DASH}(1\d\d\d|20\d\d|\d\d)(?![\w/–-]|[.,]\d)"),
        _years,
    ),
    Rule(re.compile(rf"{_START}(1\d\d\d|20\d\d)/(\d\d|\d{{4}})(?![\w/]|[.,]\d)"), _two_years),
    Rule(re.compile(rf"{_START}(1[1-9]\d\d)(?![\w:/%]|[.,]\d)"), _year),
    Rule(
        re.compile(rf"{_START}(1[1-9])([1-9]\d)er\b"),
        lambda match: f"{match[1]} hundert {match[2]}er",
    ),
    Rule(re.compile(rf"{_START}2000er\b"), lambda match: "zweitausender"),
]
