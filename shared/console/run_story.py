"""What a run directory tells about its run, read without trusting any of it."""

from __future__ import annotations

import dataclasses
import itertools
import os
import statistics
from pathlib import Path

from shared.config.settings import Config
from shared.config.toml_file import load_config
from shared.console.growing_lines import GrowingLines
from shared.errors import InputError, TandemError
from shared.run.directory import RunDirectory
from shared.run.environment import read_environment
from shared.run.event_log import Ended, Restarted, Started, read_events
from shared.run.record_numbers import is_number, number

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
    restarts: list[Restarted]
    ending: Ended | None  # of what was started last; None while that is not known
    versions: dict[str, str]  # that the run was made with; empty where nobody wrote them down
    devices: dict[str, list[str]]  # by role, the same

    @property
    def unit(self) -> str:
        """What the amounts of its steps are counted in."""
        return str(self.steps[-1].get("unit") or "examples") if self.steps else "examples"

    def device(self, role: str) -> str:
        """ "data GPU" or "data CPU", as it was."""
        on_cpu = self.devices.get(role) == ["CPU"]
        return f"{role} {'CPU' if on_cpu else 'GPU'}"


class StoryReader:
    """Reads a run that may go on; what has been read of its long files is not read again."""

    def __init__(self, run_dir: str | os.PathLike[str], most_steps: int | None = None):
        """`most_steps`: of a run of days, no more than so many of the logged ones are kept."""
        self._run = RunDirectory(run_dir)
        self._metrics = GrowingLines(
            self._run.metrics, most_steps, is_dear=lambda record: "val_loss" in record
        )
        self._quarantine = GrowingLines(self._run.quarantine)

    def read(self) -> RunStory:
        """What is there of the run by now.

        Raises:
            InputError: this is not a run directory.
        """
        run = self._run
        if not run.config.is_file():
            raise InputError(
                f"{run.path}: is not a run directory (it has no config.toml). Name a folder such as "
                "runs/NAME."
            )
        config_text = run.config.read_text(encoding="utf-8", errors="replace")
        try:
            config = load_config(run.config)
        except TandemError:
            config = None  # of another version; its text is shown all the same
        records = [record for record in self._metrics.read() if is_number(record.get("step"))]
        steps = [r for r in records if "step_ms" in r and is_number(r.get("time"))]
        events = read_events(run.events)
        starts_s = [event.time_s for event in events if isinstance(event, Started)]
        clock_s, pauses_s = _running_clock([float(r["time"]) for r in steps], starts_s)
        versions, devices = read_environment(run)
        last = events[-1] if events else None
        return RunStory(
            name=run.path.resolve().name,
            path=run.path,
            config=config,
            config_text=config_text,
            steps=steps,
            clock_s=clock_s,
            pauses_s=pauses_s,
            validations=[record for record in records if is_number(record.get("val_loss"))],
            quarantine=self._quarantine.read(),
            restarts=[event for event in events if isinstance(event, Restarted)],
            ending=last if isinstance(last, Ended) else None,
            versions=versions,
            devices=devices,
        )


def read_run(run_dir: str | os.PathLike[str]) -> RunStory:
    """Read what is there of a run.

    Raises:
        InputError: this is not a run directory.
    """
    return StoryReader(run_dir).read()


def judged_by(record: dict) -> str:
    """Which number of a validation's record says what is best."""
    name = record.get("judged_by")
    return name if isinstance(name, str) else "val_loss"


def judged(record: dict) -> float:
    """That number; NaN where it has none."""
    return number(record, judged_by(record))


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
