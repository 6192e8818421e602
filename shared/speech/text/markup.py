"""How a text is to be spoken, written into it: tags as in SSML, and phonemes between brackets.

    <break time="500ms"/>  <emphasis>never</emphasis>  <prosody rate="slow" pitch="+2st">…</prosody>
    [[təmˈeɪɾoʊ]]

Everything else is text, "5 < 6" too. A tag becomes one character of Unicode's private use, so that
sentences are found and numbers read around it as if it were not there.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from shared.errors import InputError
from shared.speech.text.lexicon import Lexicon

MAX_BREAK_S = 10.0
SPEED_RANGE, PITCH_RANGE = (0.25, 4.0), (-12.0, 12.0)

_TAG = re.compile(
    r"<(?P<close>/?)(?P<name>break|emphasis|prosody|speak|say-as|sub|phoneme|voice|audio|lang|mark)"
    r"(?P<attributes>(?:\s[^<>]*?)?)(?P<empty>/?)>"
)
_ATTRIBUTE = re.compile(r"\s*([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')\s*")
_PHONEMES = re.compile(r"\[\[(.+?)\]\]", re.DOTALL)
_FIRST_MARK, _LAST_MARK = 0xF0000, 0xFFFFD
MARK = re.compile(f"([{chr(_FIRST_MARK)}-{chr(_LAST_MARK)}])")
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}
_ENTITY = re.compile("|".join(_ENTITIES))

_BREAKS_S = {
    "none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.35, "strong": 0.6, "x-strong": 1.0,
}  # fmt: skip
_RATES = {
    "x-slow": 0.6, "slow": 0.8, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.6,
}  # fmt: skip
_PITCHES = {
    "x-low": -4.0, "low": -2.0, "medium": 0.0, "default": 0.0, "high": 2.0, "x-high": 4.0,
}  # fmt: skip


class Style(NamedTuple):
    """How something is said: speed as a factor, pitch in semitones more than usual."""

    speed: float = 1.0
    pitch: float = 0.0

    def and_then(self, other: Style) -> Style:
        return Style(self.speed * other.speed, self.pitch + other.pitch)


class Break(NamedTuple):
    """Silence of a length that was asked for."""

    seconds: float


class Sounds(NamedTuple):
    """What is said, in the symbols of the voice."""

    symbols: str


_EMPHASIS = {
    "strong": Style(0.7, 3.0), "moderate": Style(0.8, 2.0), "none": Style(),
    "reduced": Style(1.15, -1.0),
}  # fmt: skip


class Marked(NamedTuple):
    """A text of which some characters stand for what `marks` holds: a style counts from there on."""

    text: str
    marks: dict[str, Style | Break | Sounds]


def parse(text: str, lexicon: Lexicon | None = None) -> Marked:
    """Take the tags and the phonemes out of a text, and put in what a lexicon has for its words.

    Raises:
        InputError: a tag can't be understood; says what can.
    """
    return _Parser(lexicon).parse(text)


class _Parser:
    def __init__(self, lexicon: Lexicon | None):
        self._lexicon = lexicon
        self._marks: dict[str, Style | Break | Sounds] = {}
        self._open: list[tuple[str, Style]] = [("", Style())]

    def parse(self, text: str) -> Marked:
        text = MARK.sub("\ufffd", text)
        tags = list(_TAG.finditer(text))
        said, done = [], 0
        for tag in tags:
            said += [self._plain(text[done : tag.start()], bool(tags)), self._tag(tag)]
            done = tag.end()
        said.append(self._plain(text[done:], bool(tags)))
        if len(self._open) > 1:
            name = self._open[-1][0]
            raise InputError(f"<{name}> is never closed: write </{name}> where it ends.")
        return Marked("".join(said), self._marks)

    def _plain(self, text: str, is_markup: bool) -> str:
        """Text between tags."""
        said, done = [], 0
        for found in _PHONEMES.finditer(text):
            said += [self._words(text[done : found.start()], is_markup), self._sounds(found[1])]
            done = found.end()
        return "".join([*said, self._words(text[done:], is_markup)])

    def _words(self, text: str, is_markup: bool) -> str:
        if is_markup:
            text = _ENTITY.sub(lambda match: _ENTITIES[match.group()], text)
        return self._lexicon.apply(text, self._sounds) if self._lexicon else text

    def _sounds(self, symbols: str) -> str:
        return self._mark(Sounds(" ".join(symbols.split())))

    def _mark(self, meaning: Style | Break | Sounds) -> str:
        number = _FIRST_MARK + len(self._marks)
        if number > _LAST_MARK:
            raise InputError(
                f"The text has more than {_LAST_MARK - _FIRST_MARK:,} tags: cut it in two."
            )
        self._marks[chr(number)] = meaning
        return chr(number)

    def _tag(self, tag: re.Match[str]) -> str:
        name, shown = tag["name"], " ".join(tag.group().split())
        if name not in ("break", "emphasis", "prosody", "speak"):
            raise InputError(
                f"{shown} is not known here: <break>, <emphasis> and <prosody> are, and "
                "[[phonemes]] for a sound."
            )
        if tag["close"]:
            return self._close(name)
        attributes = _attributes(tag["attributes"], shown)
        if name == "break":
            return self._mark(Break(_break_s(attributes, shown)))
        if name == "speak":
            style = Style()
        else:
            style = (_emphasis if name == "emphasis" else _prosody)(attributes, shown)
        if tag["empty"]:
            return ""
        style = self._open[-1][1].and_then(style)
        _check_reach(style, shown)
        self._open.append((name, style))
        return self._mark(style)

    def _close(self, name: str) -> str:
        expected = self._open[-1][0]
        if name == "break":
            return ""
        if name != expected:
            found = f"<{expected}> is open" if expected else "no tag is open"
            raise InputError(f"</{name}> closes nothing here: {found}.")
        self._open.pop()
        return self._mark(self._open[-1][1])


def _attributes(text: str, shown: str) -> dict[str, str]:
    found, at = {}, 0
    while at < len(text.rstrip()):
        match = _ATTRIBUTE.match(text, at)
        if not match:
            raise InputError(f'{shown}: expected attributes such as time="500ms", in quotes.')
        found[match[1]] = (match[2] if match[2] is not None else match[3]).strip()
        at = match.end()
    return found


def _only(attributes: dict[str, str], known: tuple[str, ...], shown: str) -> None:
    for name in attributes:
        if name not in known and not name.startswith("xml"):
            raise InputError(f"{shown}: has no {name} here, only {' and '.join(known)}.")


def _break_s(attributes: dict[str, str], shown: str) -> float:
    _only(attributes, ("time", "strength"), shown)
    if "time" in attributes:
        found = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|s)", attributes["time"])
        seconds = float(found[1]) / (1000 if found[2] == "ms" else 1) if found else math.inf
        if seconds > MAX_BREAK_S:
            raise InputError(
                f'{shown}: expected a time up to {MAX_BREAK_S:g} s, such as "500ms" or "1.5s".'
            )
        return seconds
    return _named(_BREAKS_S, attributes.get("strength", "medium"), "strength", shown)


def _emphasis(attributes: dict[str, str], shown: str) -> Style:
    _only(attributes, ("level",), shown)
    level = attributes.get("level", "moderate")
    if level not in _EMPHASIS:
        raise InputError(f"{shown}: expected a level of {', '.join(_EMPHASIS)}.")
    return _EMPHASIS[level]


def _prosody(attributes: dict[str, str], shown: str) -> Style:
    _only(attributes, ("rate", "pitch"), shown)
    return Style(
        _rate(attributes.get("rate", "medium"), shown),
        _pitch(attributes.get("pitch", "medium"), shown),
    )


def _rate(value: str, shown: str) -> float:
    """ "80%" and "0.8" are slower, "+20%" is faster."""
    found = re.fullmatch(r"([+-])?(\d+(?:\.\d+)?|\.\d+)(%)?", value)
    if not found:
        return _named(_RATES, value, "rate", shown, 'a number such as "0.8", "80%" or "+20%"')
    number = float(found[2]) / (100 if found[3] else 1)
    if found[1]:
        number = 1 + number if found[1] == "+" else 1 - number
    return number


def _pitch(value: str, shown: str) -> float:
    """ "+2st" is two semitones higher, "+10%" a tenth of the frequency."""
    found = re.fullmatch(r"([+-]?(?:\d+(?:\.\d+)?|\.\d+))\s*(st|%)", value)
    if not found:
        return _named(_PITCHES, value, "pitch", shown, '"+2st" or "-10%"')
    number = float(found[1])
    if found[2] == "st":
        return number
    return 12 * math.log2(1 + number / 100) if number > -100 else -math.inf


def _named(names: dict[str, float], value: str, what: str, shown: str, other: str = "") -> float:
    if value not in names:
        also = f", or {other}" if other else ""
        raise InputError(f"{shown}: expected a {what} of {', '.join(names)}{also}.")
    return names[value]


def _check_reach(style: Style, shown: str) -> None:
    for value, (low, high), what in (
        (style.speed, SPEED_RANGE, "times the usual speed"),
        (style.pitch, PITCH_RANGE, "semitones from the usual pitch"),
    ):
        if not low <= value <= high:
            raise InputError(f"{shown}: makes {value:g} {what}; {low:g} to {high:g} can be spoken.")
