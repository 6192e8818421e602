"""A run's report to give away: one zip file with the page, the numbers and the samples."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

from shared.console.report import report_page
from shared.console.run_story import read_run
from shared.errors import InputError
from shared.run.directory import RunDirectory
from shared.whole_file import whole_file

_KINDS_THAT_ARE_SMALL_ALREADY = (".png", ".jpg", ".flac", ".mp3", ".ogg")


def write_report_zip(run_dir: str | os.PathLike[str], path: str | os.PathLike[str]) -> Path:
    """Write the zip whole or not at all; no key, no weights and none of the data are in it.

    Raises:
        InputError: this is not a run directory, or the file can't be written.
    """
    run, path = RunDirectory(run_dir), Path(path)
    page = report_page(read_run(run_dir)).encode()
    name = run.path.resolve().name
    try:
        # strict_timestamps: a file from before 1980 is dated so, and refused otherwise.
        with (
            whole_file(path, durable=False) as whole,
            zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive,
        ):
            archive.writestr(f"{name}/report.html", page)
            for file in _files(run):
                small = file.suffix in _KINDS_THAT_ARE_SMALL_ALREADY
                archive.write(
                    file,
                    f"{name}/{file.relative_to(run.path)}",
                    zipfile.ZIP_STORED if small else zipfile.ZIP_DEFLATED,
                )
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror or error}).") from None
    return path


def _files(run: RunDirectory) -> Iterator[Path]:
    """What else is in it, of what is there."""
    for file in (
        run.config, run.environment, run.task, run.metrics, run.events, run.quarantine,
        run.launcher_log,
    ):  # fmt: skip
        if file.is_file():
            yield file
    for file in sorted(run.samples.rglob("*")):
        if file.is_file() and not file.is_symlink() and not file.name.startswith("."):
            yield file
