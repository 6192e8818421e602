"""A run's samples inside the report: each to play, beside its picture."""

from __future__ import annotations

import base64
from pathlib import Path

from shared.console.page import folded, paragraph, section, text
from shared.run.directory import RECORDED

MOST_BYTES = 12 << 20  # of all samples together, before they grow by a third in the page
_MOST_BYTES_EACH = 4 << 20
_OPEN_STEPS = 2
_KINDS = {".wav": "audio/wav", ".png": "image/png"}


def samples_section(folder: Path, most_bytes: int = MOST_BYTES) -> str:
    """The samples, newest first, as many as there is room for."""
    steps = sorted((path for path in folder.glob("step-*") if path.is_dir()), reverse=True)
    shown: list[str] = []
    room = most_bytes
    for step in steps:
        samples = [(wav, wav.with_suffix(".png")) for wav in sorted(step.glob("*.wav"))]
        size = sum(_size(path) for pair in samples for path in pair)
        if size > room and shown:
            break
        while size > room and len(samples) > 1:  # of the newest step at least one is shown
            size -= sum(map(_size, samples.pop()))
        room -= size
        inner = "".join(_sample(wav, picture) for wav, picture in samples)
        if inner:
            name = f"Step {step.name.removeprefix('step-').lstrip('0') or '0'}"
            grid = f'<div class="samples">{inner}</div>'
            shown.append(folded(name, grid, is_open=len(shown) < _OPEN_STEPS))
    if not shown:
        return ""
    left = len(steps) - len(shown)
    more = paragraph(f"{left:,} earlier steps are in {folder}.", "soft") if left > 0 else ""
    return section("Samples", _recorded(folder / RECORDED), *shown, more)


def _recorded(folder: Path) -> str:
    """What the voice should sound like, above what it sounds like."""
    players = "".join(_sample(wav, wav.with_suffix(".png")) for wav in sorted(folder.glob("*.wav")))
    if not players:
        return ""
    words = "As recorded, through the same vocoder"
    return folded(words, f'<div class="samples">{players}</div>', is_open=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _sample(wav: Path, picture: Path) -> str:
    sound, image = _data_uri(wav), _data_uri(picture)
    if not sound:
        return ""
    drawn = ""
    if image:
        words = f"alignment and mel of sample {wav.stem}"
        drawn = f'<img src="{image}" alt="{text(words)}">'
    return (
        f'<div class="panel">{drawn}<audio controls preload="metadata" src="{sound}"></audio></div>'
    )


def _data_uri(path: Path) -> str:
    if not path.is_file() or _size(path) > _MOST_BYTES_EACH:
        return ""
    try:
        content = base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return ""
    return f"data:{_KINDS[path.suffix]};base64,{content}"
