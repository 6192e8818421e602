"""espeak-ng through ctypes: phonemes of a text, and speech for the demo corpus.

The library keeps one global voice and is not thread-safe: one `Espeak` per process, used by one
thread. Processes, not threads, make it parallel.
"""

from __future__ import annotations

import ctypes
import difflib
import functools
import re
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from shared.errors import DataError, TandemError

SAMPLE_RATE = 22_050

_AUDIO_OUTPUT_SYNCHRONOUS = 2
_DONT_EXIT = 0x8000
_UTF8 = 1
_IPA = 0x02
_POSITION_CHARACTER = 1
_RATE, _PITCH, _RANGE = 1, 3, 4
_SYNTH_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)
# espeak marks a word that it reads with another language's rules: "(en)wˈiːkɛnd(fr)".
_LANGUAGE_SWITCH = re.compile(r"\([a-z]{2,3}(?:-[a-z0-9-]+)?\)")
# Control codes, and an accent or a hyphen without a letter before it.
_STRAY = re.compile(
    r"[\x00-\x1f\x7f-\x9f]+|(?<!\w)-+(?!\d)"
    r"|(?<![\w\u0300-\u036f])[\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe2f]+"
)
_PIECE_CHARACTERS = 160
_LONG_WORD = re.compile(r"\S{50}(?=\S)")


class _Voice(ctypes.Structure):
    """A voice as the library describes it (`espeak_VOICE`)."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("languages", ctypes.c_void_p),
        ("identifier", ctypes.c_char_p),
        ("gender", ctypes.c_ubyte),
        ("age", ctypes.c_ubyte),
        ("variant", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte),
        ("score", ctypes.c_int),
        ("spare", ctypes.c_void_p),
    ]


@functools.cache
def _library() -> ctypes.CDLL:
    """The loaded and initialised library, once per process."""
    import espeakng_loader

    try:
        library = ctypes.CDLL(espeakng_loader.get_library_path())
    except OSError as error:
        raise TandemError(
            f"espeak-ng can't be loaded ({error}). Install espeakng-loader again, or use "
            f"--text-frontend characters."
        ) from None
    library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    library.espeak_TextToPhonemes.argtypes = [
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_int,
        ctypes.c_int,
    ]
    library.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(_Voice))
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_uint,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_uint,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    data_path = espeakng_loader.get_data_path().encode()
    rate = library.espeak_Initialize(_AUDIO_OUTPUT_SYNCHRONOUS, 0, data_path, _DONT_EXIT)
    if rate != SAMPLE_RATE:
        raise TandemError(
            f"espeak-ng did not start (it answered {rate}, expected {SAMPLE_RATE}). Install "
            f"espeakng-loader again, or use --text-frontend characters."
        )
    return library


def _voices() -> list[_Voice]:
    voices = _library().espeak_ListVoices(None)
    found: list[_Voice] = []
    while voices[len(found)]:
        found.append(voices[len(found)].contents)
    return found


def _near(language: str) -> list[str]:
    """Codes that may be meant: of a language with that name, or else spelt alike."""
    wanted = language.strip().lower()
    named = {
        voice.name.decode().lower(): voice.identifier.decode().rsplit("/", 1)[-1].lower()
        for voice in _voices()
    }
    codes = [code for name, code in named.items() if wanted and name.startswith(wanted)]
    codes.sort(key=len)
    codes += difflib.get_close_matches(wanted, languages(), 3)
    return list(dict.fromkeys(codes))[:3] or ["en-us", "de", "fa"]


@functools.cache
def languages() -> dict[str, str]:
    """Every language code that espeak-ng knows, in lower case, and the name of its voice."""
    found: dict[str, tuple[int, str]] = {}
    for voice in _voices():
        name = voice.identifier.decode()
        at = voice.languages
        while (priority := ctypes.string_at(at, 1)[0]) != 0:
            code = ctypes.string_at(at + 1)
            at += 2 + len(code)
            key = code.decode().lower()
            if key not in found or priority < found[key][0]:
                found[key] = (priority, name)
        # "roa/fr" and its last part are names people use as well
        found.setdefault(name.rsplit("/", 1)[-1].lower(), (255, name))
    return {code: name for code, (_, name) in sorted(found.items())}


class Espeak:
    """One voice of espeak-ng.

    Args:
        language: a language code such as en-us, de or fa.
        variant: a way of speaking on top of it, such as f2 or m3; for speech only.
    """

    _selected: str | None = None  # the library's one voice, shared by every instance

    def __init__(self, language: str = "en-us", variant: str = ""):
        self._library = _library()
        known = languages()
        voice = known.get(language.lower().replace("_", "-"))
        if voice is None:
            raise DataError(
                f"Unknown language {language!r}: espeak-ng has {len(known)} of them, such as "
                f"{', '.join(_near(language))}. Give one of its codes with --language."
            )
        self._voice = f"{voice}+{variant}" if variant else voice
        self._select()

    def _select(self) -> None:
        if Espeak._selected == self._voice:
            return
        if self._library.espeak_SetVoiceByName(self._voice.encode()) != 0:
            raise DataError(f"espeak-ng has no voice {self._voice!r}.")
        Espeak._selected = self._voice

    def phonemes(self, text: str) -> str:
        """The text in IPA with stress and length marks, words apart by a space, no punctuation."""
        self._select()
        clauses = []
        for piece in _harmless(text):
            buffer = ctypes.create_string_buffer(piece)
            pointer = ctypes.c_void_p(ctypes.addressof(buffer))
            while pointer.value:
                clause = self._library.espeak_TextToPhonemes(ctypes.byref(pointer), _UTF8, _IPA)
                if clause:
                    clauses.append(clause.decode("utf-8", "ignore"))
        return " ".join(_LANGUAGE_SWITCH.sub("", " ".join(clauses)).split())

    def speak(
        self, text: str, *, words_per_minute: int = 165, pitch: int = 50, pitch_range: int = 50
    ) -> np.ndarray:
        """The text as speech: int16 (samples,) at 22,050 Hz.

        The same texts in the same order in a fresh process give the same samples; the library
        carries the phase of its voice from one text to the next.
        """
        self._select()
        for parameter, value in ((_RATE, words_per_minute), (_PITCH, pitch), (_RANGE, pitch_range)):
            self._library.espeak_SetParameter(parameter, int(value), 0)
        pieces: list[np.ndarray] = []

        def receive(samples: Any, count: int, _events: object) -> int:
            if samples and count > 0:
                pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
            return 0

        # Its noise is seeded from the clock otherwise.
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(1))
        callback: Callable = _SYNTH_CALLBACK(receive)
        self._library.espeak_SetSynthCallback(callback)
        for raw in _harmless(text):
            status = self._library.espeak_Synth(
                raw, len(raw) + 1, 0, _POSITION_CHARACTER, 0, _UTF8, None, None
            )
            self._library.espeak_Synchronize()
            if status != 0:
                raise TandemError(f"espeak-ng could not speak {text[:40]!r} (status {status}).")
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int16)


def _harmless(text: str) -> list[bytes]:
    """The text in pieces that espeak-ng can bear.

    "[[" would switch it to reading phoneme names; stray characters crash some languages' rules. A
    word or a clause without end (a row of garbage, foreign letters that it spells out) overflows a
    buffer in it and ends the process, so both are cut.
    """
    text = _STRAY.sub(" ", text.replace("[[", "[ ["))
    text = _LONG_WORD.sub(r"\g<0> ", text)
    if len(text) <= _PIECE_CHARACTERS:
        return [text.encode("utf-8", "replace")]
    pieces = textwrap.wrap(text, _PIECE_CHARACTERS, break_long_words=True, break_on_hyphens=False)
    return [piece.encode("utf-8", "replace") for piece in pieces]
