"""Whether the full stop of an abbreviation ends the sentence as well."""

from __future__ import annotations

import re

_SENTENCE = re.compile(r"[\"'”’»)\]]*(?:\s*$|\s+[\"'“„«]*[A-ZÄÖÜ](?![A-ZÄÖÜ]))")

# In German a capital letter alone does not begin a sentence: nouns have one too.
SENTENCE_WORDS = (
    "Aber|Als|Am|Auch|Auf|Bei|Bis|Da|Damit|Danach|Dann|Das|Dem|Den|Der|Die|Dies|Dieser|Doch|Dort|Du|Ein"
    "|Eine|Er|Es|Für|Hier|Heute|Ich|Ihr|Im|In|Jetzt|Man|Mit|Nach|Nun|Ob|Oder|Seit|Seine|Sie|So|Trotz|Um"
    "|Und|Von|Vor|Wann|Warum|Was|Weil|Wenn|Wer|Wie|Wir|Wo|Zu|Zum|Zur|Zwei|Drei"
)
_GERMAN_SENTENCE = re.compile(rf"[\"'”’»)\]]*(?:\s*$|\s+(?:{SENTENCE_WORDS})\b)")


def kept_stop(match: re.Match[str]) -> str:
    """ "." where the text ends after the match or goes on as a new sentence does, else nothing."""
    ends = match.group().endswith(".") and _SENTENCE.match(match.string, match.end())
    return "." if ends else ""


def at_the_end(match: re.Match[str]) -> str:
    """ "." where a German text ends after the match, or goes on with a word that begins a sentence."""
    ends = match.group().endswith(".") and _GERMAN_SENTENCE.match(match.string, match.end())
    return "." if ends else ""
