"""Text to symbols, two ways: the phonemes that espeak-ng hears in it, or its own characters.

A front end turns one text into one string of which every character is a symbol: letters or IPA
with stress and length marks, a space between words, and the punctuation that is heard.
"""

from __future__ import annotations

import functools
import re
import unicodedata

from shared.errors import ConfigError
from shared.speech.text import symbols
from shared.speech.text.reading.reader import reader_of

FRONTENDS = ("phonemes", "characters")
MARKS = ",.!?;:—…"
# Punctuation of other scripts, and the look-alikes of ours.
_MARK_OF = {mark: mark for mark in MARKS} | dict(
    zip("،、，﹐؛；。．｡।॥۔؟？！：–―‒⸺⸻﹘¡¿;·՝։", ",,,,;;......??!:——————!?;;,.", strict=True)
)
# What opens a quotation in one language closes it in another: “…”, „…“, »…«, «…».
_QUOTES = "\"'“”„‟‘’‚‛«»‹›「」『』《》〈〉〝〞〟｢｣＂＇❝❞❛❜״"
_CLOSING = _QUOTES + ")]}）］｝】"
_OPENING = _QUOTES + "([{（［｛【¿¡"
_WIDE = "、，。．｡！？：；।॥。…"  # ends a clause without a space after it
_MARKS_RE, _CLOSING_RE = re.escape("".join(_MARK_OF)), re.escape(_CLOSING)
_BREAK = re.compile(
    rf"\s*([{_MARKS_RE}]+(?:[{_CLOSING_RE}]+[{_MARKS_RE}]+)*)([{_CLOSING_RE}]*)(?=\s|$)"
    rf"|\s*([—–―‒⸺⸻﹘{_WIDE}]+)[{_CLOSING_RE}]*|\s+(--?)(?=\s)|\s*(--+)\s*|\s*(\.\.\.+)"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“‘-])(?:[A-Za-z]|(?:[A-Za-z]\.)+[A-Za-z]|Mr|Mrs|Ms|Mx|Dr|St|Prof|Capt|Col|Gen|Lt"
    r"|Maj|Sgt|Rev|Hon|Gov|Sen|Rep|Pres|Messrs|Mt|Ft|vs|No|Nos|Fig|vol|Vol|pp|cf|etc|approx)$"
)
_GLUED = re.compile(r"(?<=\w)([?!;:,]+)(?=[^\W\d])")  # "ok?Yes": espeak would read the mark aloud
_QUIET = frozenset(_CLOSING + _OPENING + "-`´")
_QUOTE_KINDS = frozenset({"Pi", "Pf", "Ps", "Pe"})  # of Unicode: quotation marks and brackets
_DROPPED = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
PARAGRAPH = re.compile(r"\n\s*\n")
_ZERO_WIDTH_JOINERS = "\u200c\u200d"  # they change letters in Persian and Indic scripts


def make_frontend(name: str, language: str) -> Phonemes | Characters:
    """The front end called `name`.

    Raises:
        ConfigError: there is none of that name.
        DataError: espeak-ng does not know the language.
    """
    if name == "phonemes":
        return Phonemes(language)
    if name == "characters":
        return Characters()
    raise ConfigError(f"Unknown text_frontend {name!r}; expected one of {', '.join(FRONTENDS)}.")


class Phonemes:
    """IPA by espeak-ng, with the punctuation that it would swallow put back in its place."""

    def __init__(self, language: str):
        from shared.speech.text.espeak import Espeak

        self._espeak = Espeak(language)
        self._reader = reader_of(language)
        self._speaks = functools.cache(lambda character: bool(self._espeak.phonemes(character)))

    def symbols(self, text: str) -> tuple[str, list[str]]:
        """The symbols of `text`, and each character that espeak-ng has no sound for, once."""
        return self.sounds(self.read(text))

    def read(self, text: str) -> str:
        """The text as it is said: dates, units and abbreviations in words (`reading/`)."""
        return "\n\n".join(self._reader.read(normalise(each)) for each in PARAGRAPH.split(text))

    def sounds(self, text: str, goes_on: bool = False) -> tuple[str, list[str]]:
        """`symbols` of a text that was `read` already; one that `goes_on` may begin with a mark."""
        text = _GLUED.sub(r"\1 ", "".join(map(_plain, normalise(text))))
        pieces: list[str] = []
        for clause, mark in _clauses(text):
            # A mark of punctuation in espeak's own notation would be taken for a real one.
            phonemes = self._espeak.phonemes(clause).replace(".", "·") if clause else ""
            if phonemes:
                pieces.append((" " if pieces else "") + phonemes + mark)
            elif pieces and mark and pieces[-1][-1] not in MARKS:
                pieces[-1] += mark
            elif goes_on and mark and not pieces:
                pieces.append(mark)
        return "".join(pieces), self._unspoken(text)

    def _unspoken(self, text: str) -> list[str]:
        # A letter, or a digit of ASCII, is spoken in every language; looking it up costs time.
        known = {
            c
            for c in dict.fromkeys(text)
            if (c.isascii() and c.isalnum()) or c.isspace() or c in _QUIET or c in _MARK_OF
        }
        return [
            c
            for c in dict.fromkeys(text)
            if c not in known and unicodedata.category(c)[0] not in "ML" and not self._speaks(c)
        ]


@functools.cache
def _plain(character: str) -> str:
    """A hyphen, quotation mark or bracket that espeak-ng would call by its name, as one it knows."""
    if character in _MARK_OF or character in _QUIET:
        return character
    kind = unicodedata.category(character)
    if kind == "Pd":
        return "-"
    if character == "\u00ad":  # where a word may be divided
        return ""
    return '"' if kind in _QUOTE_KINDS else character


class Characters:
    """The text's own characters in lower case, composed; every printable one is a symbol."""

    def read(self, text: str) -> str:
        """The text as it is: its own characters are what the voice learnt."""
        return text

    def sounds(self, text: str, goes_on: bool = False) -> tuple[str, list[str]]:
        """`symbols`: nothing needs to be read, and every mark is kept."""
        return self.symbols(text)

    def symbols(self, text: str) -> tuple[str, list[str]]:
        """The symbols of `text`, and each character that is no symbol (control codes), once."""
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).lower())
        # NFKC turns "…" into three full stops; "_" is the name of padding, and separates words.
        text = text.replace("...", "…").replace(symbols.PADDING, " ")
        dropped = [
            c
            for c in dict.fromkeys(text)
            if not c.isspace()
            and c not in _ZERO_WIDTH_JOINERS
            and unicodedata.category(c) in _DROPPED
        ]
        if dropped:
            text = text.translate({ord(c): " " for c in dropped})
        return " ".join(text.split()), dropped


def normalise(text: str) -> str:
    """Composed characters (NFC), straight spaces, no line breaks."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _clauses(text: str) -> list[tuple[str, str]]:
    """Cut a text where punctuation is heard: (what is before it, the mark that stands for it)."""
    clauses, begin = [], 0
    for match in _BREAK.finditer(text):
        found = match.group().strip().strip(_CLOSING)
        before = text[begin : match.start()]
        if found == "." and match.end() < len(text) and goes_on(before, text[match.end() :]):
            continue
        clauses.append((before.strip(), _mark(found)))
        begin = match.end()
    rest = text[begin:].strip()
    return [*clauses, (rest, "")] if rest else clauses


def goes_on(before: str, after: str) -> bool:
    """Whether a full stop belongs to an abbreviation and not to the end of a sentence."""
    following = after.lstrip().lstrip(_OPENING)[:1]
    return bool(_ABBREVIATION.search(before)) or following.islower()


def _mark(found: str) -> str:
    """The one mark that a run of punctuation amounts to: "?!" asks, "..." trails off."""
    if "..." in found or "…" in found:
        return "…"
    if found.startswith("-"):
        return "—"
    marks = [_MARK_OF[c] for c in found if c in _MARK_OF]
    for strong in "?!":
        if strong in marks:
            return strong
    return marks[-1] if marks else ""
