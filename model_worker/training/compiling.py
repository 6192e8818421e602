"""How much of a step XLA compiles on this machine: what was asked for, or what a trial finds to pay.

A step that is compiled whole asks a GPU for less, but each bucket's shape is compiled by itself, which
takes longer than many a run. So on a GPU `--xla auto` tries all three ways once, on a batch of the usual
length, leaves weights and everything else as they were, and keeps what it has found for later runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from model_worker.training.state import counters_of, groups_of, put_back
from model_worker.training.step import Compiled, TrainStep

# Shorter runs are over before a trial has paid for itself.
WORTH_A_TRIAL, MINUTES_WORTH_A_TRIAL = 5000, 20.0
_STEPS = 12
_NO_RATE = 0.0  # of learning; a step costs the same at any


@dataclasses.dataclass(frozen=True)
class Trial:
    """What each way takes: milliseconds a step, and seconds until its first one was done."""

    step_ms: Mapping[Compiled, float]
    first_s: Mapping[Compiled, float]

    def best(self, num_steps: float, num_shapes: int) -> Compiled:
        """The way in which so many steps are done first."""

        def seconds(compiled: Compiled) -> float:
            times = num_shapes if compiled is Compiled.WHOLE else 1
            return self.first_s[compiled] * times + num_steps * self.step_ms[compiled] / 1e3

        return min(self.step_ms, key=seconds)

    def steps_in(self, seconds: float) -> float:
        """How many there can be."""
        return seconds * 1e3 / min(self.step_ms.values())

    def in_words(self, best: Compiled) -> str:
        """For whoever started the run."""
        named = {
            Compiled.NOTHING: "nothing compiled",
            Compiled.UPDATE: "the optimizer compiled",
            Compiled.WHOLE: "all compiled",
        }
        told = ", ".join(
            f"{self.step_ms[each]:.1f} ms with {words}"
            for each, words in named.items()
            if math.isfinite(self.step_ms[each])
        )
        return f"⏱️  --xla auto: a step takes {told}. This run goes on with {named[best]}"


def without_trial(
    wanted: str, device_kind: str, deterministic: bool, num_replicas: int
) -> Compiled | None:
    """What is compiled, where there is nothing to be found out; None = only a trial tells.

    What is measured differs from time to time, so it must not decide where weights are to be the same
    again. Replicas, too, all compute alike. A processor gains nothing by it.
    """
    if wanted == "on":
        return Compiled.WHOLE
    if wanted == "off" or device_kind != "gpu":
        return Compiled.NOTHING
    return Compiled.UPDATE if deterministic or num_replicas > 1 else None


def tried(step: TrainStep, batch: dict[str, tf.Tensor], grad_accum: int) -> Trial:
    """Take some steps in each way; the state is afterwards as it was."""
    groups, counters = groups_of(step), counters_of(step)
    step_ms, first_s = {}, {}
    try:
        for compiled in Compiled:
            step.compile(compiled)
            try:
                first_s[compiled] = _seconds(step, batch, grad_accum, 1)
                step_ms[compiled] = _seconds(step, batch, grad_accum, _STEPS) * 1e3 / _STEPS
            except tf.errors.OpError:  # XLA can't compile it here, or there is no memory for it
                first_s[compiled] = step_ms[compiled] = math.inf
    finally:
        step.drop_group()
        step.forget_log()
        put_back(groups, counters, step)
    return Trial(step_ms, first_s)


def _seconds(
    step: TrainStep, batch: dict[str, tf.Tensor], grad_accum: int, num_steps: int
) -> float:
    begun_s = time.perf_counter()
    for _ in range(num_steps):
        for n in range(grad_accum):
            step(batch, 0, _NO_RATE, is_last=n + 1 == grad_accum)
    step.num_applied.numpy()  # waits for the device
    return time.perf_counter() - begun_s


def kept_trial(
    folder: Path | None, facts: Mapping[str, Any], make: Callable[[], Trial] | None
) -> Trial | None:
    """The trial of a machine and model with these facts; where there is none yet, and it can be, made."""
    name = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
    path = folder / f"{name[:40]}.json" if folder else None
    try:
        if path is not None:
            return _from_json(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        pass  # there is none yet, or it is damaged
    trial = make() if make else None
    if path is not None and trial is not None:
        try:
            path.write_text(json.dumps(_to_json(trial) | {"of": facts}, default=str, indent=1))
        except OSError:
            pass  # a full disk only means that it is not kept
    return trial


def _to_json(trial: Trial) -> dict[str, Any]:
    return {
        name: {each.value: value for each, value in values.items()}
        for name, values in dataclasses.asdict(trial).items()
    }


def _from_json(kept: Mapping[str, Any]) -> Trial:
    values = (kept[field.name] for field in dataclasses.fields(Trial))
    return Trial(*({each: float(value[each.value]) for each in Compiled} for value in values))


def as_batch(arrays: Mapping[str, np.ndarray], device: str) -> dict[str, tf.Tensor]:
    """On the device, as a step wants it."""
    with tf.device(device):
        return {name: tf.identity(tf.convert_to_tensor(a)) for name, a in arrays.items()}
