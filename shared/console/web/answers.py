"""What each address of the page answers."""

from __future__ import annotations

import functools
import json
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from shared.console.page import frame
from shared.console.web import fragments
from shared.console.web.charts import charts_of, charts_of_many
from shared.console.web.live_runs import LiveRun, LiveRuns
from shared.console.web.samples import sample_file, samples_in
from shared.console.web.server import Answer, refused

_HERE = Path(__file__).parent
_MOST_COMPARED = 8


class LivePage:
    """Answers for some runs. `?run=3` names one of them, `?runs=0,2` those to compare."""

    def __init__(self, runs: LiveRuns):
        self._runs = runs
        self._made: dict[tuple[int, ...], tuple[tuple[int, ...], bytes]] = {}

    def __call__(self, parts: list[str], query: str, asked_range: str) -> Answer:
        """The answer to an address behind the token."""
        wanted = parse_qs(query)
        match parts:
            case [""]:
                return Answer(_page(), "text/html; charset=utf-8")
            case ["live.js"]:
                return Answer(_script(), "text/javascript; charset=utf-8")
            case ["now"]:
                return self._now(wanted)
            case ["story"]:
                return self._story(wanted)
            case ["sample", number, group, name]:
                run = self._one(number)
                if run is None:
                    return refused(HTTPStatus.NOT_FOUND)
                return sample_file(run.directory.samples, group, name, asked_range)
        return refused(HTTPStatus.NOT_FOUND)

    def _now(self, wanted: dict[str, list[str]]) -> Answer:
        """What changes every second; `versions` tell whether the story is another one."""
        runs = self._runs.all()
        if "run" not in wanted and len(runs) != 1:
            chosen = self._chosen(wanted)
            title = f"{len(runs)} runs" if runs else "No run yet"
            return _json(
                title=title,
                fragments={"list": fragments.list_of(runs)},
                versions=[runs[number].version for number in chosen],
                chosen=chosen,
            )
        run = self._one(wanted.get("run", ["0"])[0])
        if run is None:
            words = fragments.paragraph("There is no run of this number here.", "bad")
            return _json(title="Not there", fragments={"words": words}, versions=[], chosen=[])
        return _json(
            title=f"Run {run.name}",
            fragments={
                **fragments.now_of(run),
                "back": '<a href="?">all runs</a>' if len(runs) > 1 else "",
            },
            versions=[run.version],
            chosen=[runs.index(run)],
        )

    def _story(self, wanted: dict[str, list[str]]) -> Answer:
        runs = self._runs.all()
        if "run" not in wanted and len(runs) != 1:
            return self._kept(tuple(self._chosen(wanted)), many=True)
        run = self._one(wanted.get("run", ["0"])[0])
        if run is None:
            return refused(HTTPStatus.NOT_FOUND)
        return self._kept((runs.index(run),), many=False)

    def _kept(self, numbers: tuple[int, ...], many: bool) -> Answer:
        """Made once for all who look."""
        runs = [self._runs.all()[number] for number in numbers]
        versions = tuple(run.version for run in runs)
        key = (-1, *numbers) if many else numbers
        known, made = self._made.get(key, ((), b""))
        if known != versions:
            content = _comparison(numbers, runs) if many else _whole(numbers[0], runs[0])
            if len(self._made) > 100:
                self._made.clear()
            made = _as_json(content)
            self._made[key] = (versions, made)
        return Answer(made)

    def _one(self, number: str) -> LiveRun | None:
        runs = self._runs.all()
        return runs[int(number)] if number.isdecimal() and int(number) < len(runs) else None

    def _chosen(self, wanted: dict[str, list[str]]) -> list[int]:
        """Those to compare: the ones that were named, else the last few."""
        runs = self._runs.all()
        if "runs" not in wanted:
            return list(range(len(runs)))[-_MOST_COMPARED:]
        named = [int(each) for each in wanted["runs"][0].split(",") if each.isdecimal()]
        return [number for number in dict.fromkeys(named) if number < len(runs)][:_MOST_COMPARED]


def _whole(number: int, run: LiveRun) -> dict[str, Any]:
    story = run.story()
    if story is None:
        return {"fragments": {}, "charts": [], "samples": []}
    return {
        "fragments": fragments.story_parts(story),
        "charts": charts_of(story),
        "samples": [_samples(number, run)],
    }


def _comparison(numbers: tuple[int, ...], runs: list[LiveRun]) -> dict[str, Any]:
    told = [(number, run, run.story()) for number, run in zip(numbers, runs, strict=True)]
    stories = [story for _, _, story in told if story is not None]
    return {
        "fragments": {"differs": fragments.differing(stories)},
        "charts": charts_of_many(stories),
        "samples": [_samples(number, run) for number, run, story in told if story is not None],
    }


def _samples(number: int, run: LiveRun) -> dict[str, Any]:
    return {
        "run": number,
        "name": run.name,
        "groups": [
            {"group": group, "samples": samples}
            for group, samples in samples_in(run.directory.samples)
            if samples
        ],
    }


def _json(**content: Any) -> Answer:
    return Answer(_as_json(content))


def _as_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


@functools.cache
def _script() -> bytes:
    return (_HERE / "live.js").read_bytes()


@functools.cache
def _page() -> bytes:
    body = (_HERE / "live.html").read_text(encoding="utf-8")
    style = (_HERE / "live.css").read_text(encoding="utf-8")
    return frame("Tandem", body, style=style, script="live.js").encode()
