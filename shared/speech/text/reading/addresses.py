"""E-mail and web addresses as they are dictated: "info at example dot com"."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LABEL = r"[^\W_](?:[\w-]*[^\W_])?"
_END = r"(?<![.,;:!?'\")\]])"  # marks at the end belong to the sentence
EMAIL = re.compile(rf"(?<![\w.@])[\w.+-]*\w@(?:{_LABEL}\.)+[^\W\d_]{{2,}}", re.ASCII)
WEB = re.compile(
    rf"(?<![\w.@])(?:https?://|(?=www\.))(?:{_LABEL}\.)+[^\W\d_]{{2,}}(?::\d+)?(?:/[^\s<>]*{_END})?",
    re.IGNORECASE,
)
# Without anything before it, only what nobody would write as two sentences.
BARE = re.compile(
    rf"(?<![\w.@/])(?:{_LABEL}\.)+(?:com|org|net|edu|gov|info|io|dev|de|at|ch|eu|uk)"
    rf"(?![\w@-]|\.\w)(?:/[^\s<>]*{_END})?",
)
_PARTS = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|_")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)


def dictated(address: str, signs: Mapping[str, str], letters: Mapping[str, str]) -> str:
    """An address in words.

    Args:
        signs: how ".", "@", "/" and the others are called.
        letters: how a letter is called where espeak-ng would not name it so.
    """
    address = _SCHEME.sub("", address).rstrip("/")
    host = address.partition("/")[0].partition(":")[0]
    ending = len(host) - 2 if re.search(r"\.[^\W\d_]{2}$", host) else len(address)
    said = []
    for part in _PARTS.finditer(address):
        text = part.group()
        if text.lower() == "www" or part.start() == ending:
            said += [letters.get(letter, letter) for letter in text.upper()]
        elif text in signs:
            said.append(signs[text])
        elif text.isalnum():
            said.append(text)
    return " ".join(said)
