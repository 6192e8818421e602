"""How English reads the calendar and the clock: dates, years, times of the day."""

from __future__ import annotations

import re

from shared.speech.text.reading.english_words import DAYS, FRACTIONS, MONTH_NAMES, MONTHS
from shared.speech.text.reading.full_stop import kept_stop
from shared.speech.text.reading.reader import Rule

_MONTH = "|".join(sorted(MONTH_NAMES, key=len, reverse=True))
_SHORT_MONTHS = MONTH_NAMES.keys() - {way for name in MONTHS for way in (name, name.lower())}
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?:1[0-9]\d\d|20\d\d)"
_BEFORE_DATES = ("on", "by", "since", "until", "till", "before", "after", "due")


_DUE = re.compile(r"\b(?:on|due) $")


def _before(match: re.Match[str]) -> str:
    return match.string[: match.start()]


def calendar(day_first: bool) -> list[Rule]:
    """What is written with a calendar or a clock in mind; the British put the day before the month."""

    def slashed(match: re.Match[str]) -> str | None:
        first, second, year = int(match[1]), int(match[2]), match[3]
        month, day = (second, first) if day_first and second <= 12 else (first, second)
        if month > 12:
            month, day = day, month
        # "until 1/2 inch": what could be a fraction is a date after few words alone.
        if not year and first < second and second in FRACTIONS and not _DUE.search(_before(match)):
            return None
        return _date(month, day, year)

    return [
        Rule(re.compile(r"(?<![\w/-])(\d{4})([-/])(\d\d)\2(\d\d)(?![\w/-])"), _iso_date),
        Rule(re.compile(r"(?<![\w-])(\d{1,2})-(\d{1,2})-(\d{4})(?![\w-])"), slashed),
        Rule(
            re.compile(r"(?<![\w.])(\d{1,2})\.(\d{1,2})\.(\d{4})(?![\w-]|\.\d)"),
            lambda match: _date(int(match[2]), int(match[1]), match[3]),
        ),
        Rule(re.compile(r"(?<![\w/.,])(\d{1,2})/(\d{1,2})/(\d{4}|\d\d)(?![\w/])"), slashed),
        *(
            Rule(re.compile(rf"(?<=\b{word} )(\d{{1,2}})/({_DAY})()(?![\w/])"), slashed)
            for word in _BEFORE_DATES
        ),
        Rule(
            re.compile(
                rf"\b(?P<month>{_MONTH})\b\.? (?P<day>{_DAY})(?:st|nd|rd|th)?"
                rf"(?:\s?[–-]\s?(?P<last>{_DAY})(?:st|nd|rd|th)?)?(?:,? (?P<year>{_YEAR}))?(?![\w:/]|[.,]\d)"
            ),
            _month_day,
        ),
        Rule(
            re.compile(
                rf"(?<![\w.,/])(?P<day>{_DAY})(?:st|nd|rd|th)? (?:of )?(?P<month>{_MONTH})\b\.?"
                rf"(?:,? (?P<year>{_YEAR})(?![\w:/]|[.,]\d))?"
            ),
            _day_month,
        ),
        Rule(
            re.compile(rf"\b(?P<month>{_MONTH})\b\.?,? (?P<year>{_YEAR})(?![\w:/]|[.,]\d)"),
            _month_year,
        ),
        Rule(
            re.compile(
                rf"\b(?=[MTWFS])({'|'.join(DAYS)})\b\.?\s?[–-]\s?({'|'.join(DAYS)})\b(?:\.(?!\w))?"
            ),
            _days,
            has_number=False,
        ),
        Rule(
            re.compile(rf"\b({'|'.join(DAYS)})\.(?=[\s,;:)])|\b(Mon|Tues?|Wed|Thurs?|Fri)(?=, )"),
            _day,
            has_number=False,
        ),
        Rule(
            re.compile(r"\b([A-Za-z]{3,4})\.(?!\w)"),
            _month,
            has_number=False,
        ),
        Rule(
            re.compile(
                r"(?<![\w.,:/])(?P<hour>[01]?\d|2[0-4])[:.](?P<minute>[0-5]\d)(?::[0-5]\d)?"
                r"(?P<half>\s?[ap](?:\.m\b\.?|m\b\.?)|\s?[AP]\.?M\b\.?)(?!\w)"
            ),
            _time,
        ),
        Rule(
            re.compile(
                r"(?<![\w.,:/])(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?P<half>)(?![\w:])"
            ),
            _time,
        ),
        Rule(re.compile(r"(?<![\w.,:/])(\d{1,2})([ap]\.?m\b\.?|[AP]\.?M\b\.?)"), _hour),
        # "9am–5pm", "5:30–7"
        Rule(
            re.compile(r"(?<=[\dmM.])\s?[–-]\s?(?=\d{1,2}(?::\d\d)?\s?(?:[ap]\.?m\b|[AP]\.?M\b))"),
            lambda match: " to ",
        ),
        Rule(re.compile(r"(?<=:[0-5]\d)\s?[–-]\s?(?=\d{1,2}\b)"), lambda match: " to "),
    ]


def ordinal(number: int) -> str:
    """With the ending that espeak-ng reads: 21st."""
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{number}{('th', 'st', 'nd', 'rd')[last] if last < 4 else 'th'}"


def year_in_words(year: str) -> str:
    """1984 as "19 84", 1905 as "19 oh 5"; 2005 stays as it is."""
    if len(year) != 4 or year[1:3] == "00":
        return year
    century, rest = year[:2], int(year[2:])
    if rest == 0:
        return f"{century} hundred"
    return f"{century} {rest}" if rest > 9 else f"{century} oh {rest}"


def _date(month: int, day: int, year: str | None) -> str | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    if year and len(year) == 2:
        year = f"{19 if int(year) >= 50 else 20}{year}"
    return f"{MONTHS[month - 1]} {ordinal(day)}" + (f", {year_in_words(year)}" if year else "")


def _iso_date(match: re.Match[str]) -> str | None:
    return _date(int(match[3]), int(match[4]), match[1])


def _month_day(match: re.Match[str]) -> str:
    month, day, last, year = match.group("month", "day", "last", "year")
    said = f"{MONTH_NAMES[month]} {ordinal(int(day))}"
    said += f" to {ordinal(int(last))}" if last else ""
    return said + (f", {year_in_words(year)}" if year else "")


def _day_month(match: re.Match[str]) -> str | None:
    day, month, year = match.group("day", "month", "year")
    if month in ("Mar", "Jun", "Sun") and not year and not match.group().endswith("."):
        return None
    the = "" if re.search(r"\bthe $", match.string[: match.start()]) else "the "
    said = f"{the}{ordinal(int(day))} of {MONTH_NAMES[month]}"
    return said + (f", {year_in_words(year)}" if year else kept_stop(match))


def _month_year(match: re.Match[str]) -> str:
    return f"{MONTH_NAMES[match['month']]} {year_in_words(match['year'])}"


def _days(match: re.Match[str]) -> str:
    return f"{DAYS[match[1]]} to {DAYS[match[2]]}" + kept_stop(match)


def _day(match: re.Match[str]) -> str | None:
    day, after = match[1] or match[2], match.string[match.end() :]
    if day in ("Sat", "Sun") and not _WITH_SATURDAY.match(after):
        return None  # "We saw the Sun. It rose."
    return DAYS[day] + kept_stop(match)


_WITH_SATURDAY = re.compile(
    rf",? (?:\d|(?:{_MONTH})\b|night|morning|afternoon|evening|at\b)|,|\s?[–-]"
)


def _month(match: re.Match[str]) -> str | None:
    stop = kept_stop(match)
    if match[1] not in _SHORT_MONTHS or (match[1] == "Jan" and stop):  # who is a person, too
        return None
    return MONTH_NAMES[match[1]] + stop


def _time(match: re.Match[str]) -> str | None:
    hour, minute, half = int(match["hour"]), int(match["minute"]), match["half"]
    half = f" {_half(half)}" + kept_stop(match) if half else ""
    if minute == 0:
        if half:
            return f"{hour}{half}"
        return f"{hour} hundred" if hour > 12 else f"{hour} o'clock"
    return f"{hour} {'oh ' if minute < 10 else ''}{minute}{half}"


def _hour(match: re.Match[str]) -> str:
    return f"{int(match[1])} {_half(match[2])}" + kept_stop(match)


def _half(written: str) -> str:
    return "AM" if "a" in written.lower() else "PM"


def _years(match: re.Match[str]) -> str:
    first, last = match[1], match[2]
    return f"{year_in_words(first)} to {year_in_words(last)}"


def _year(match: re.Match[str]) -> str | None:
    said = year_in_words(match[1])
    return None if said == match[1] else said


_NO_YEAR = (
    r"(?!\s(?:dollars|euros|pounds|cents|percent|miles|meters|kilometers|feet|points|votes|pages|words"
    r"|square|cubic|times|calories|steps)\b)"
)
YEARS = [
    Rule(
        re.compile(rf"(?<![\w.,/–-])({_YEAR})\s?[–-]\s?({_YEAR}|\d\d)(?![\w/–-]|[.,]\d)"),
        _years,
    ),
    Rule(re.compile(r"\b(AD|BC|BCE|CE) (?=\d)"), lambda m: f"{'.'.join(m[1])}. "),
    Rule(re.compile(r"\bc\. ?(?=\d{3,4}\b)"), lambda m: "circa "),
    Rule(
        re.compile(r"(?<![\w.,$#/:@-])(1[1-9]\d\d|20[1-9]\d)(?![\w:/%]|[.,-]\d)" + _NO_YEAR), _year
    ),
    Rule(re.compile(r"(?<=\b(?:[iI]n|of) )(10\d\d)(?![\w:/%-]|[.,]\d)"), _year),
]
