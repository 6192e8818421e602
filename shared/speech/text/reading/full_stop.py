"""Whether the full stop of an abbreviation ends the sentence as well."""

from __future__ import annotations

import re

_SENTENCE = re.compile(r"[\"'”’»)\]]*(?:\s*$|\s+[\"'“„«]*[A-ZÄÖÜ](?![A-ZÄÖÜ]))")


def kept_stop(match: re.Match[str]) -> str:
    """ "." where the text ends after the match or goes on as a new sentence does, else nothing."""
    ends = match.group().endswith(".") and _SENTENCE.match(match.string, match.end())
    return "." if ends else ""


def at_the_end(match: re.Match[str]) -> str:
    """ "." where the text ends after the match: for languages that write nouns with a capital."""
    return "." if match.group().endswith(".") and not match.string[match.end() :].strip() else ""
