"""What Piper, and whatever reads its voices, wants to know beside the ONNX file.

Piper makes phonemes of a text with espeak-ng (or takes its characters), takes them apart into single
code points (NFD) and puts a padding between any two. Our symbols are composed characters (NFC): what
was taken apart is put together again in the graph, by `pairs`.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from typing import Any

from shared.speech.mel import HOP, SAMPLE_RATE
from shared.speech.text.symbols import END, PADDING, SPACE, SPECIAL, START

_BEGIN, _FINISH = "^", "$"  # Piper's names of the silence at both ends
_NAME_PARTS = {PADDING: PADDING, START: _BEGIN, END: _FINISH, SPACE: SPACE}


@dataclasses.dataclass(frozen=True)
class PhonemeMap:
    """Code points to numbers, and which two numbers are one symbol.

    Numbers from the size of the symbol table on are code points that are no symbol by themselves.
    """

    ids: dict[str, int]
    pairs: list[tuple[int, int, int]]  # letter, mark, and the symbol that they are
    unreachable: list[str]  # symbols that no text of Piper's leads to


def phoneme_map(table: list[str]) -> PhonemeMap:
    """The map of a run's symbol table."""
    ids = {_NAME_PARTS.get(symbol, symbol): number for number, symbol in enumerate(table[:4])}
    unreachable = [symbol for symbol in table[len(SPECIAL) :] if symbol in ids]
    own = {s: n for n, s in enumerate(table) if n >= len(SPECIAL) and s not in ids}
    ids |= {s: n for s, n in own.items() if len(unicodedata.normalize("NFD", s)) == 1}
    pairs, following = [], len(table)
    for symbol, number in own.items():
        parts = unicodedata.normalize("NFD", symbol)
        if len(parts) == 1:
            continue
        if len(parts) > 2:
            unreachable.append(symbol)
            continue
        for part in parts:
            if part not in ids:
                ids[part], following = following, following + 1
        pairs.append((ids[parts[0]], ids[parts[1]], number))
    return PhonemeMap(ids, pairs, unreachable)


def piper_config(
    table: list[str], frontend: str, language: str, speakers: list[str]
) -> dict[str, Any]:
    """The content of the .onnx.json."""
    ids = {part: [number] for part, number in phoneme_map(table).ids.items()}
    if frontend == "characters":
        # Piper does not lower the case of a text, and leaves its line breaks.
        ids |= {
            upper: ids[c] for c in list(ids) if len(upper := c.upper()) == 1 and upper not in ids
        }
        ids |= {space: ids[SPACE] for space in "\n\t" if space not in ids}
    return {
        "audio": {"sample_rate": SAMPLE_RATE, "quality": "medium"},
        "espeak": {"voice": language},
        "language": {"code": language},
        "phoneme_type": "espeak" if frontend == "phonemes" else "text",
        "phoneme_map": {},
        "phoneme_id_map": ids,
        "num_symbols": len(table),
        "num_speakers": len(speakers),
        "speaker_id_map": {name: i for i, name in enumerate(speakers)} if len(speakers) > 1 else {},
        "inference": {"noise_scale": 0.0, "length_scale": 1.0, "noise_w": 0.0},
        "hop_length": HOP,
        "piper_version": "1.0.0",
    }
