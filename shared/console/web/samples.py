"""The samples of a run as the page plays them: what there is, and the bytes of one file."""

from __future__ import annotations

import os
import re
import stat
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from shared.console.report_samples import PICTURES, SOUNDS
from shared.console.web.server import Answer, refused
from shared.run.directory import RECORDED

_STEP = re.compile(r"step-\d+")
_MOST_STEPS = 50
_MOST_BYTES = 64 << 20
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")

Sample = dict[str, str]


def samples_in(folder: Path) -> list[tuple[str, list[Sample]]]:
    """For the recorded ones and for each step, the newest first: its samples by the names of files."""
    names = _names(folder)
    steps = sorted((name for name in names if _STEP.fullmatch(name)), reverse=True)[:_MOST_STEPS]
    groups = [RECORDED] if RECORDED in names else []
    return [(group, _samples(folder / group)) for group in (*groups, *steps)]


def _samples(folder: Path) -> list[Sample]:
    found: dict[str, Sample] = {}
    for name in _names(folder):
        path = Path(name)
        if path.suffix in PICTURES or path.suffix in SOUNDS:
            kind = "picture" if path.suffix in PICTURES else "sound"
            found.setdefault(path.stem, {"name": path.stem})[kind] = quote(name)
    return [found[stem] for stem in sorted(found)]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def sample_file(folder: Path, group: str, name: str, asked: str) -> Answer:
    """One of the files that are listed. Nothing else has a name here, so no path leads elsewhere."""
    kinds = {**PICTURES, **SOUNDS}
    is_listed = group in _names(folder) and (group == RECORDED or _STEP.fullmatch(group))
    if not is_listed or name not in _names(folder / group) or Path(name).suffix not in kinds:
        return refused(HTTPStatus.NOT_FOUND)
    try:
        descriptor = os.open(folder / group / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST_BYTES:
                return refused(HTTPStatus.NOT_FOUND)
            content = file.read()
    except OSError:
        return refused(HTTPStatus.NOT_FOUND)
    return _part(content, kinds[Path(name).suffix], asked)


def _part(content: bytes, kind: str, asked: str) -> Answer:
    """The whole, or the bytes of a Range: phones play no sound without."""
    headers = {"Accept-Ranges": "bytes", "Cache-Control": "private, max-age=3600"}
    found = _RANGE.fullmatch(asked.strip())
    if not found or not any(found.groups()):
        return Answer(content, kind, headers=headers)
    size = len(content)
    if found[1]:
        first, last = int(found[1]), min(int(found[2] or size - 1), size - 1)
    else:
        first, last = max(0, size - int(found[2])), size - 1
    if first > last:
        headers["Content-Range"] = f"bytes */{size}"
        return Answer(b"", kind, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers)
    headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    return Answer(content[first : last + 1], kind, HTTPStatus.PARTIAL_CONTENT, headers)
