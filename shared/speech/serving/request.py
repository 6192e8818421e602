"""What a client may ask to be spoken, and the sentence for what it may not."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from shared.speech.serving.sound_format import FORMATS
from shared.speech.text.markup import PITCH_RANGE, SPEED_RANGE

MOST_BYTES = 1 << 20  # of a request
MOST_CHARACTERS = 10_000  # of a text that is not streamed
DEFAULT_FORMAT = "mp3"  # as those who set the convention have it
_SHOWN_VOICES = 8


class RequestRefused(Exception):
    """A request that can't be carried out; the message is a sentence for who sent it."""

    def __init__(
        self,
        message: str,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})


@dataclasses.dataclass(frozen=True)
class SpeechRequest:
    """`speaker` is the number of the voice."""

    text: str
    speaker: int
    response_format: str
    speed: float
    pitch_semitones: float
    stream: bool


def read_request(body: bytes, voices: list[str]) -> SpeechRequest:
    """The request that a body holds.

    Raises:
        RequestRefused: it holds none.
    """
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestRefused("The body is not JSON.") from None
    if not isinstance(asked, dict):
        raise RequestRefused('The body has to be a JSON object, such as {"input": "Hello."}.')
    stream = _bool(asked, "stream") or asked.get("stream_format") == "audio"
    if asked.get("stream_format") not in (None, "audio"):
        raise RequestRefused("stream_format can only be 'audio': the sound itself, as it is made.")
    return SpeechRequest(
        text=_text(asked, stream),
        speaker=_speaker(asked.get("voice"), voices),
        response_format=_format(asked.get("response_format")),
        speed=_number(asked, "speed", 1.0, SPEED_RANGE),
        pitch_semitones=_number(asked, "pitch", 0.0, PITCH_RANGE),
        stream=stream,
    )


def _text(asked: dict[str, Any], stream: bool) -> str:
    text = asked.get("input")
    if not isinstance(text, str):
        raise RequestRefused("input is missing: the text to speak, a string.")
    if not text.strip():
        raise RequestRefused("input is empty: there is nothing to say.")
    if len(text) > MOST_CHARACTERS and not stream:
        raise RequestRefused(
            f"input has {len(text):,} characters; at most {MOST_CHARACTERS:,} are spoken in one "
            'answer. Ask for it with "stream": true, or in parts.',
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        )
    return text


def _speaker(name: object, voices: list[str]) -> int:
    if name is None:
        return 0
    if name in voices:
        return voices.index(str(name))
    near = difflib.get_close_matches(str(name), voices, 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    shown = ", ".join(voices[:_SHOWN_VOICES]) + (", …" if len(voices) > _SHOWN_VOICES else "")
    raise RequestRefused(f"voice: there is no {str(name)[:40]!r} here.{meant} There is {shown}.")


def _format(name: object) -> str:
    if name is None:
        return DEFAULT_FORMAT
    if isinstance(name, str) and name in FORMATS:
        return name
    raise RequestRefused(
        f"response_format: {str(name)[:40]!r} is not made here; there is {', '.join(FORMATS)}."
    )


def _number(asked: dict[str, Any], name: str, default: float, limits: tuple[float, float]) -> float:
    value = asked.get(name)
    if value is None:
        return default
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not limits[0] <= value <= limits[1]:
        raise RequestRefused(
            f"{name}: found {str(value)[:40]}; expected a number from {limits[0]:g} to {limits[1]:g}."
        )
    return float(value)


def _bool(asked: dict[str, Any], name: str) -> bool:
    value = asked.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise RequestRefused(f"{name}: found {str(value)[:40]}; expected true or false.")
