"""Rows that can be used, but that a person should look at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from data_worker.speech.audio_check.check_row import Usable
from data_worker.speech.data_check.examined import ExaminedSpeech
from data_worker.speech.formats.rows import Row

CLIPPING, NEAR_SILENCE, MOSTLY_SILENCE = "clipping", "near-silence", "mostly silence"
MISFIT, SAME_TEXT, SAME_AUDIO = "text and duration", "duplicate text", "duplicate audio"

_CLIPPED_SAMPLES = 9  # three flat tops
_QUIET_LEVEL_DB = -45.0
_QUIET_SHARE = 0.5
_FEWEST_TO_COMPARE = 20
_DEVIATIONS = 4.0
_SMALLEST_FACTOR = 1.5  # less than this is a manner of speaking


def find_outliers(examined: ExaminedSpeech, seconds: np.ndarray) -> list[dict]:
    """kind, line, id, path and note of every row worth a look, kind by kind."""
    rows, usable = examined.rows, examined.usable
    found: list[dict] = []
    for row, each in zip(rows, usable, strict=True):
        found += [_outlier(kind, row, note) for kind, note in _by_ear(each)]
    found += _misfits(rows, seconds)
    found += _repeated(SAME_TEXT, rows, [_text_of(row) for row in rows], "has the same text as")
    digests = [u.found.heard.digest if u.found.heard else None for u in usable]
    found += _repeated(SAME_AUDIO, rows, digests, "is the same audio as")
    order = [CLIPPING, NEAR_SILENCE, MOSTLY_SILENCE, MISFIT, SAME_TEXT, SAME_AUDIO]
    return sorted(found, key=lambda outlier: order.index(outlier["kind"]))


def texts_of_several_speakers(rows: list[Row]) -> int:
    """Texts that more than one speaker says, which is nothing to mend."""
    speakers = defaultdict(set)
    for row in rows:
        speakers[_text_of(row)[1]].add(row.speaker)
    return sum(len(names) > 1 for names in speakers.values())


def _outlier(kind: str, row: Row, note: str) -> dict:
    return {"kind": kind, "line": row.line, "id": row.id, "path": row.path, "note": note}


def _by_ear(each: Usable) -> list[tuple[str, str]]:
    heard = each.found.heard
    if heard is None:
        return []
    notes = []
    if heard.clipped_samples >= _CLIPPED_SAMPLES:
        note = f"{heard.clipped_samples:,} samples are cut off flat at a peak of {heard.peak:.2f}"
        notes.append((CLIPPING, note))
    if heard.level_db < _QUIET_LEVEL_DB:
        note = f"its level is {heard.level_db:.0f} dB, its peak {heard.peak:.4f} of full scale"
        notes.append((NEAR_SILENCE, note))
    if heard.quiet_share > _QUIET_SHARE:
        notes.append((MOSTLY_SILENCE, f"{heard.quiet_share:.0%} of it is 40 dB below its peak"))
    return notes


def _misfits(rows: list[Row], seconds: np.ndarray) -> list[dict]:
    """Rows whose characters per second are far from those of the rest."""
    if len(rows) < _FEWEST_TO_COMPARE:
        return []
    rate = np.array([max(1, len(row.text)) for row in rows]) / seconds
    usual = float(np.median(rate))
    distance = np.log(rate / usual)
    spread = 1.4826 * float(np.median(np.abs(distance - np.median(distance))))
    limit = max(_DEVIATIONS * spread, np.log(_SMALLEST_FACTOR))
    found = []
    for place in np.argsort(-np.abs(distance)):
        if abs(distance[place]) <= limit:
            break
        what = "too much text" if distance[place] > 0 else "too little text"
        found.append(
            _outlier(
                MISFIT,
                rows[place],
                f"{what} for its {seconds[place]:.2f} s: {rate[place]:.1f} characters per second, "
                f"usual are {usual:.1f}",
            )
        )
    return found


def _text_of(row: Row) -> tuple[str, str]:
    """Speaker and text, without what makes no difference to the ear."""
    return row.speaker, " ".join(row.text.casefold().split()).strip(" .!?")


def _repeated(
    kind: str, rows: list[Row], keys: Sequence[Hashable | None], words: str
) -> list[dict]:
    """All but the first row of each key; None is no key."""
    first: dict[Hashable, Row] = {}
    found = []
    for row, key in zip(rows, keys, strict=True):
        if key is None:
            continue
        earlier = first.setdefault(key, row)
        if earlier is not row:
            found.append(_outlier(kind, row, f"{words} line {earlier.line} ({earlier.id})"))
    return found
