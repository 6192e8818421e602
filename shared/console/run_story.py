"""What a run directory tells about its run, read without trusting any of it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import statistics
import time
from pathlib import Path

from shared.config.settings import Config
from shared.config.toml_file import load_config
from shared.errors import InputError, TandemError
from shared.run.directory import RunDirectory
from shared.run.environment import read_environment

_RESTART_WORDS = ("starting it again", "its spare takes over")
_START = "📁"  # as the line begins that says where the run is, at every start
_ENDINGS = ("🏁", "⏹", "❌")
_STAMP_CHARACTERS = 20  # of a launcher.log line: its date and time
_PAUSE_S = 120.0  # no logged step for so long, and for far longer than usual: it was not running


@dataclasses.dataclass(frozen=True)
class RunStory:
    """A run's records, in order. `steps` are the logged steps, `clock_s` the time of each.

    The clock counts seconds of running: a pause between two starts counts as nothing, and
    `pauses_s` says where they were.
    """

    name: str
    path: Path
    config: Config | None
    config_text: str
    steps: list[dict]
    clock_s: list[float]
    pauses_s: list[float]
    validations: list[dict]
    quarantine: list[dict]
    restarts: list[tuple[str, str]]  # when, what was said
    ending: str
    versions: dict[str, str]  # that the run was made with; empty where nobody wrote them down
    devices: dict[str, list[str]]  # by role, the same

    def device(self, role: str) -> str:
        """ "data GPU" or "data CPU", as it was."""
        on_cpu = self.devices.get(role) == ["CPU"]
        return f"{role} {'CPU' if on_cpu else 'GPU'}"


def read_run(run_dir: str | Path) -> RunStory:
    """Read what is there of a run.

    Raises:
        InputError: this is not a run directory.
    """
    run = RunDirectory(run_dir)
    if not run.config.is_file():
        raise InputError(
            f"{run_dir}: is not a run directory (it has no config.toml). Name a folder such as "
            "runs/NAME."
        )
    config_text = run.config.read_text(encoding="utf-8", errors="replace")
    try:
        config = load_config(run.config)
    except TandemError:
        config = None  # of another version; its text is shown all the same
    records = [record for record in _json_lines(run.metrics) if _is_number(record.get("step"))]
    steps = [record for record in records if "step_ms" in record and _is_number(record.get("time"))]
    said = _said(run.launcher_log)
    starts_s = [_seconds(when) for when, line in said if line.startswith(_START)]
    clock_s, pauses_s = _running_clock([float(record["time"]) for record in steps], starts_s)
    versions, devices = read_environment(run)
    endings = [line for _, line in said if line.startswith(_ENDINGS)]
    return RunStory(
        name=run.path.resolve().name,
        path=run.path,
        config=config,
        config_text=config_text,
        steps=steps,
        clock_s=clock_s,
        pauses_s=pauses_s,
        validations=[record for record in records if _is_number(record.get("val_loss"))],
        quarantine=_json_lines(run.quarantine),
        restarts=[
            (when, line) for when, line in said if any(words in line for words in _RESTART_WORDS)
        ],
        ending=endings[-1] if endings else "",
        versions=versions,
        devices=devices,
    )


def number(record: dict, name: str) -> float:
    """A number of a record; NaN where it has none, so that a curve has a gap there."""
    value = record.get(name)
    return float(value) if _is_number(value) else float("nan")


def numbers(record: dict, name: str) -> list[float]:
    """A list of numbers of a record; anything else is none."""
    value = record.get(name)
    return [float(v) for v in value if _is_number(v)] if isinstance(value, list) else []


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _json_lines(path: Path) -> list[dict]:
    """The whole lines of a file that are JSON objects."""
    try:
        content = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = []
    for line in content.split("\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            found.append(record)
    return found


def _said(path: Path) -> list[tuple[str, str]]:
    """When and what, of each line of launcher.log."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [(line[: _STAMP_CHARACTERS - 1], line[_STAMP_CHARACTERS:]) for line in lines]


def _seconds(stamp: str) -> float:
    """time.time() of a line of launcher.log; nan where it has no date."""
    try:
        return time.mktime(time.strptime(stamp, "%Y-%m-%d %H:%M:%S"))
    except ValueError:
        return math.nan


def _running_clock(times_s: list[float], starts_s: list[float]) -> tuple[list[float], list[float]]:
    """Seconds since the first logged step, pauses left out; and where those were.

    `starts_s`: when the run was started, or gone on with, as far as it is written down.
    """
    if not times_s:
        return [], []
    gaps_s = [max(0.0, later - earlier) for earlier, later in itertools.pairwise(times_s)]
    usual_s = statistics.median(gaps_s) if gaps_s else 0.0
    clock_s, pauses_s = [0.0], []
    for gap_s, begun_s in zip(gaps_s, times_s, strict=False):
        was_started = any(begun_s < start_s < begun_s + gap_s for start_s in starts_s)
        if was_started or gap_s > max(_PAUSE_S, 20 * usual_s):
            pauses_s.append(clock_s[-1])
            gap_s = usual_s
        clock_s.append(clock_s[-1] + gap_s)
    return clock_s, pauses_s
