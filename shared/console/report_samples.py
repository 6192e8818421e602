"""A run's samples inside the report: pictures to see, and sounds to play beside them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

from shared.console.page import folded, paragraph, section, text
from shared.run.directory import RECORDED, REMARK

MOST_BYTES = 12 << 20  # of all samples together, before they grow by a third in the page
_MOST_BYTES_EACH = 4 << 20
_OPEN_STEPS = 2
_LONGEST_REMARK = 400
PICTURES = {".png": "image/png", ".jpg": "image/jpeg"}
SOUNDS = {".wav": "audio/wav", ".flac": "audio/flac"}
_KINDS = {**PICTURES, **SOUNDS}


def samples_section(folder: Path, most_bytes: int = MOST_BYTES) -> str:
    """The samples, newest first, as many as there is room for."""
    steps = sorted((path for path in folder.glob("step-*") if path.is_dir()), reverse=True)
    shown: list[str] = []
    room = most_bytes
    for step in steps:
        samples = list(_samples_in(step))
        size = sum(_size(path) for sample in samples for path in sample)
        if size > room and shown:
            break
        while size > room and len(samples) > 1:  # of the newest step at least one is shown
            size -= sum(map(_size, samples.pop()))
        room -= size
        inner = "".join(map(_sample, samples))
        if inner:
            name = f"Step {step.name.removeprefix('step-').lstrip('0') or '0'}"
            grid = f'<div class="samples">{inner}</div>'
            shown.append(folded(name, _remark(step) + grid, is_open=len(shown) < _OPEN_STEPS))
    if not shown:
        return ""
    left = len(steps) - len(shown)
    more = paragraph(f"{left:,} earlier steps are in {folder}.", "soft") if left > 0 else ""
    return section("Samples", _recorded(folder / RECORDED), *shown, more)


def _remark(step: Path) -> str:
    """What the task says of a step's samples."""
    try:
        words = (step / REMARK).read_text("utf-8")[:_LONGEST_REMARK]
    except (OSError, ValueError):
        return ""
    return paragraph(words, "soft")


def _samples_in(folder: Path) -> Iterator[list[Path]]:
    """The files of each sample: those that share a name, the picture first."""
    found: dict[str, list[Path]] = {}
    for kind in _KINDS:
        for path in sorted(folder.glob(f"*{kind}")):
            found.setdefault(path.stem, []).append(path)
    for name in sorted(found):
        yield found[name]


def _recorded(folder: Path) -> str:
    """What samples should be like, above what they are like."""
    inner = "".join(map(_sample, _samples_in(folder)))
    if not inner:
        return ""
    words = "As recorded, which is as good as it can sound here"
    return folded(words, f'<div class="samples">{inner}</div>', is_open=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _sample(paths: list[Path]) -> str:
    parts = ""
    for path in paths:
        content = _data_uri(path)
        if content and path.suffix in PICTURES:
            parts += f'<img src="{content}" alt="{text(f"picture of sample {path.stem}")}">'
        elif content:
            parts += f'<audio controls preload="metadata" src="{content}"></audio>'
    return f'<div class="panel">{parts}</div>' if parts else ""


def _data_uri(path: Path) -> str:
    if not path.is_file() or _size(path) > _MOST_BYTES_EACH:
        return ""
    try:
        content = base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return ""
    return f"data:{_KINDS[path.suffix]};base64,{content}"
