"""The report of a run: one self-contained page, made from its run directory."""

from __future__ import annotations

import os
import time
from pathlib import Path

from shared.console import report_pictures, report_sections, report_series
from shared.console.page import page, panel, paragraph, section
from shared.console.report_samples import samples_section
from shared.console.run_story import RunStory, read_run
from shared.run.directory import RunDirectory
from shared.run.files import write_file


def write_report(run_dir: str | os.PathLike[str]) -> Path:
    """Write report.html into the run directory and return its path.

    Raises:
        InputError: this is not a run directory, or it can't be written to.
    """
    story = read_run(run_dir)
    path = Path(run_dir) / "report.html"
    write_file(path, report_page(story).encode())
    return path


def report_page(story: RunStory) -> str:
    """The whole page."""
    parts = [report_sections.ending(story), report_sections.facts_of(story)]
    if story.steps:
        parts += [
            section(
                report_series.title_of(story),
                panel(report_pictures.gpus_and_queue(story)),
                paragraph(
                    f"{report_sections.steadiness_of(story)} {report_sections.BOUND}", "soft"
                ),
            ),
            section(
                "Loss",
                panel(report_pictures.losses(story)),
                report_sections.overfitting(story),
            ),
            section(
                "Where the time went",
                panel(report_pictures.time_spent(story) or paragraph("No times were logged.")),
                paragraph(report_sections.verdict(story)),
                paragraph(report_sections.COLOURS_OF_TIME, "soft"),
            ),
            section("Padding and speed", panel(report_pictures.pace(story))),
        ]
    else:
        parts.append(paragraph("No step has been logged yet."))
    parts += [
        samples_section(RunDirectory(story.path).samples),
        report_sections.quarantine(story.quarantine),
        report_sections.restarts(story),
        report_sections.configuration(story),
        report_sections.environment(story),
    ]
    return page(f"Run {story.name}", f"written {time.strftime('%Y-%m-%d %H:%M:%S')}", parts)
