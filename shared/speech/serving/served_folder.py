"""Where a run's ONNX files are kept, and whether they are those of what it has learned by now."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shared.errors import InputError
from shared.run.directory import RunDirectory
from shared.speech.extras import want_extra
from shared.speech.serving.served_voice import is_exported

_VERSION = "1"  # of what is exported: another one is exported anew
_FOLDER, _OWN_VOCODER = "onnx", "vocoder"
_DIGITS = 12


class KeptExport(NamedTuple):
    """folder: its name follows from what it was made of."""

    folder: Path
    is_there: bool

    def remove_older(self) -> None:
        """Remove what the run was exported to before."""
        for other in self.folder.parent.iterdir():
            if other != self.folder and is_exported(other):
                shutil.rmtree(other, ignore_errors=True)


def kept_export(named: str, vocoder: str | None) -> KeptExport:
    """The files of an exported folder, or the place for those of a run.

    Raises:
        InputError: it is neither, or the run can't be exported here.
    """
    folder = Path(named)
    if is_exported(folder):
        if vocoder:
            raise InputError("--vocoder: what is exported has one already. Leave it out.")
        return KeptExport(folder, True)
    if not RunDirectory(folder).config.is_file():
        raise InputError(
            f"--run {named}: is no run directory, nor what 'export --format onnx' wrote."
        )
    found = hashlib.sha256(_VERSION.encode())
    for part in _made_of(folder, Path(vocoder) if vocoder else folder / _OWN_VOCODER):
        found.update(part.encode() + b"\n")
    place = folder / _FOLDER / found.hexdigest()[:_DIGITS]
    if not is_exported(place):
        want_extra("onnx")
    return KeptExport(place, is_exported(place))


def _made_of(*runs: Path) -> Iterator[str]:
    """What tells one state of these runs from another."""
    for number, run in enumerate(runs):
        paths = sorted((run / "checkpoints").glob("*/manifest.json"))
        for path in (*paths, run / "samples" / "judged.json", run / "index.safetensors"):
            if path.is_file():
                found = path.stat()
                yield f"{number} {path.relative_to(run)} {found.st_mtime_ns} {found.st_size}"
