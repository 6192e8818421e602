"""The verdict on a run's pace: what the model process waits for, and which flag would help.

Pure: records of metrics.jsonl and the run's settings in, a name and an advice out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from shared.config.settings import Config
from shared.diagnosis.wait_attribution import (
    ABSENT,
    CAUSES,
    COMPILING,
    DECODING,
    FEATURES,
    READING,
    SERIALISING,
    TRANSPORT,
)
from shared.plan.plan_of_run import num_data_workers
from shared.run.record_numbers import finite_number

WAITS_FROM = 0.05  # of the time; a model that waits less has nothing to win
_BUSY = 0.85  # a device or cores in use for so long have no room for more
_MOST_READERS = 64
_HEADROOM = 1.2
_TICKETS_A_WORKER = 8  # that a data process works on at once
_FULL = 0.9
_SEEN_FROM = 0.01  # of the time: what else is waited for, and is worth a word
UNKNOWN = "unknown"  # the waiting of records without a cause

_IN_WORDS = {
    "device_copy": "device copy",
    ABSENT: "a data process",
    UNKNOWN: "a cause that was not recorded",
}


def in_words(cause: str) -> str:
    """A cause as people read it."""
    return _IN_WORDS.get(cause, cause)


class Measured:
    """Mean milliseconds per batch over any number of logged steps."""

    def __init__(self, records: Iterable[dict] = ()):
        self._weight = 0.0
        self._sums: dict[str, float] = {}
        self._last_step = 0.0
        self._causes: dict[str, float] = dict.fromkeys(CAUSES, 0.0)
        self.readers = 0
        self.last_epoch = 0
        self.deepest_between_waits = 0  # the queue, after one wait for it and before another
        self._deepest_since_waiting: int | None = None  # None: the model has not waited yet
        for record in records:
            self.add(record)

    def add(self, record: dict) -> None:
        """One record of metrics.jsonl; those of validations and of other versions say nothing."""
        step, waited_for = _number(record, "step"), record.get("waited_for_ms")
        if not isinstance(waited_for, dict) or not _number(record, "step_ms"):
            return
        weight = max(1.0, step - self._last_step) if self._last_step else 1.0
        self._last_step = step
        if step == 1:
            return  # it holds the first compilation
        timings = record.get("timings_ms")
        timings = timings if isinstance(timings, dict) else {}
        self._weight += weight
        for name in ("step_ms", "data_wait_ms", "data_gpu_busy"):
            self._add(name, weight * _number(record, name))
        for name in ("reading", "decoding", "features", "cores_busy"):
            self._add(name, weight * _number(timings, name))
        for cause in CAUSES:
            self._causes[cause] += weight * _number(waited_for, cause)
        self.readers = round(_number(timings, "readers"))
        self.last_epoch = int(_number(record, "epoch"))
        self._note_depth(record)

    def _note_depth(self, record: dict) -> None:
        waited_ms, depth = _number(record, "data_wait_ms"), int(_number(record, "queue_depth"))
        if waited_ms > WAITS_FROM * (waited_ms + _number(record, "step_ms")):
            since = self._deepest_since_waiting or 0
            self.deepest_between_waits = max(self.deepest_between_waits, since)
            self._deepest_since_waiting = 0
        elif self._deepest_since_waiting is not None:
            self._deepest_since_waiting = max(self._deepest_since_waiting, depth)

    def _add(self, name: str, value: float) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + value

    def mean(self, name: str) -> float:
        """Of step_ms, data_wait_ms, reading, decoding, features, cores_busy or data_gpu_busy."""
        return self._sums.get(name, 0.0) / self._weight if self._weight else 0.0

    def waited_for(self, cause: str) -> float:
        """Mean milliseconds per batch."""
        return self._causes[cause] / self._weight if self._weight else 0.0

    @property
    def wait_share(self) -> float:
        """Of the model process's time."""
        waited = self.mean("data_wait_ms")
        return waited / max(1e-9, waited + self.mean("step_ms"))

    @property
    def explained(self) -> float:
        """The share of the waiting that has a cause."""
        waited = self.mean("data_wait_ms")
        return sum(map(self.waited_for, CAUSES)) / waited if waited > 0 else 1.0

    def __str__(self) -> str:
        """Where the waiting went, the most first."""
        waited = {in_words(cause): self.waited_for(cause) for cause in CAUSES}
        waited[UNKNOWN] = max(0.0, self.mean("data_wait_ms") - sum(waited.values()))
        total = max(1e-9, self.mean("data_wait_ms"))
        most_first = sorted(waited.items(), key=lambda item: -item[1])
        parts = [f"{name} {ms / total:.0%}" for name, ms in most_first if ms / total >= 0.005]
        return f"{self.mean('data_wait_ms'):.1f} ms a batch: " + " · ".join(parts)

    @property
    def is_empty(self) -> bool:
        return self._weight == 0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`waiting_for` is one of the causes, or empty when the model is the limit."""

    waiting_for: str
    wait_share: float  # of the model process's time, whatever it waited for
    cause_share: float  # of the same, for that cause alone
    advice: str  # a flag and its value, or empty

    @property
    def briefly(self) -> str:
        """In three words or four; empty when the model is the limit."""
        if self.waiting_for in ("", UNKNOWN):
            return f"waits {self.wait_share:.0%}" if self.waiting_for else ""
        return f"waits {self.cause_share:.0%} for {in_words(self.waiting_for)}"

    def __str__(self) -> str:
        if not self.waiting_for:
            return (
                f"waiting for: nothing ({self.wait_share:.0%} of the time); the model is the limit"
            )
        words = f"waiting for: {in_words(self.waiting_for)} ({self.cause_share:.0%} of the time"
        if self.wait_share - self.cause_share >= _SEEN_FROM:
            words += f", {self.wait_share:.0%} with all else"
        words += ")"
        return f"{words}; try {self.advice}" if self.advice else words


def judge(measured: Measured, config: Config) -> Verdict | None:
    """What the run waits for most; None while nothing has been measured."""
    if measured.is_empty:
        return None
    share = measured.wait_share
    most = max(CAUSES, key=measured.waited_for)
    if share < WAITS_FROM:
        return Verdict("", share, share, "")
    if measured.waited_for(most) <= 0:
        return Verdict(UNKNOWN, share, share, "")
    cause_share = share * min(1.0, measured.waited_for(most) / measured.mean("data_wait_ms"))
    return Verdict(most, share, cause_share, _advice(most, measured, config))


def _advice(cause: str, measured: Measured, config: Config) -> str:
    """A flag that the measurements speak for, or none."""
    if cause in (COMPILING, ABSENT):
        return ""  # it passes
    data, num_workers = config.data, num_data_workers(config)
    if measured.deepest_between_waits >= _FULL * data.pipeline_buffer_size > 1:
        # Empty, full and empty again: the mean pace is enough, the swings are too long.
        return f"--buffer-size {2 * data.pipeline_buffer_size}"
    if cause in (TRANSPORT, SERIALISING):
        wanted = _TICKETS_A_WORKER * num_workers
        return f"--buffer-size {wanted}" if data.pipeline_buffer_size < wanted else ""
    cores_are_free = measured.mean("cores_busy") < _BUSY
    if cause == READING or (cause == DECODING and cores_are_free):
        readers = _readers_wanted(measured, num_workers)
        if readers > measured.readers:
            return f"--num-workers {readers}"
    if cause in (READING, DECODING, FEATURES) and data.cache == "off" and measured.last_epoch > 0:
        return "--cache memory"
    if cause == FEATURES and cores_are_free and measured.mean("data_gpu_busy") < _BUSY:
        return f"--data-workers {config.run.data_workers + 1}"
    return ""


def _readers_wanted(measured: Measured, num_workers: int) -> int:
    """Readers with which reading and decoding would keep up with the rest of the chain."""
    pace_ms = max(measured.mean("step_ms"), measured.mean("features") / num_workers)
    work_ms = measured.mean("reading") + measured.mean("decoding")
    wanted = math.ceil(_HEADROOM * work_ms / max(1e-9, pace_ms * num_workers))
    return min(_MOST_READERS, wanted)


def _number(record: dict, name: str) -> float:
    """0 where it has none."""
    return finite_number(record, name) or 0.0
