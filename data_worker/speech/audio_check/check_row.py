"""What is done to one row in a process of the pool: its text to symbols, its audio looked at."""

from __future__ import annotations

import functools
from typing import NamedTuple

from data_worker.speech.audio_check.probe import ProbedFile, ProbeSettings, Unusable, probe
from data_worker.speech.formats.rows import BAD, FILTERED, LeftOut, Row, leave_out
from shared.speech.mel import frames_of, resampled_length
from shared.speech.text.frontend import make_frontend

MAX_TEXT_CHARACTERS = 5_000


class Usable(NamedTuple):
    """A row that can be trained on."""

    found: ProbedFile
    symbols: str  # one symbol per character, without the silence at both ends
    unspoken: tuple[str, ...]  # characters of the text that have no sound
    num_frames: int
    is_reworded: bool = False  # its symbols owe something to `shared/speech/text/reading`


class CheckSettings(NamedTuple):
    """All that decides what a row becomes."""

    roots: tuple[str, ...]
    probe: ProbeSettings
    frontend: str
    language: str


_frontend = functools.cache(make_frontend)


def check_row(row: Row, settings: CheckSettings) -> Usable | LeftOut:
    """Look at one row: usable, or why it isn't."""
    if not row.text:
        return leave_out(row, BAD, "its text is empty")
    if len(row.text) > MAX_TEXT_CHARACTERS:
        return leave_out(
            row,
            BAD,
            f"its text has {len(row.text):,} characters; at most {MAX_TEXT_CHARACTERS:,} are read",
        )
    frontend = _frontend(settings.frontend, settings.language)
    said = frontend.read(row.text)
    symbols, unspoken = frontend.sounds(said)
    if not symbols.strip():
        return leave_out(row, BAD, f"nothing in its text can be spoken ({row.text[:40]!r})")
    try:
        found = probe(settings.roots[row.root], row.path, settings.probe)
    except Unusable as error:
        return leave_out(row, error.kind, error.reason)
    num_frames = frames_of(resampled_length(found.num_samples, found.sample_rate))
    if num_frames < len(symbols) + 2:
        return leave_out(
            row,
            FILTERED,
            f"its text has {len(symbols) + 2} symbols and its audio only "
            f"{num_frames} mel frames; each symbol needs one",
        )
    is_reworded = said != row.text and symbols != frontend.sounds(row.text)[0]
    return Usable(found, symbols, tuple(unspoken), num_frames, is_reworded)
