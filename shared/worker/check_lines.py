"""What a check in a child process tells the launcher: a line of JSON for each thing seen."""

from __future__ import annotations

from dataclasses import dataclass

from shared.run.typed_lines import decoder


@dataclass(frozen=True)
class Passed:
    """One thing is as it should be; without a method, it is worth knowing, and no fault."""

    method: str
    saw: str


@dataclass(frozen=True)
class Failed:
    """What is wrong: the last line."""

    problem: str


@dataclass(frozen=True)
class Predicted:
    """What a step on a run's largest batch takes of a GPU's memory, beside CUDA's own libraries."""

    size: str  # of the model; empty where the task comes in one
    rows: int
    lengths: tuple[int, ...]
    megabytes: int


@dataclass(frozen=True)
class Timed:
    """Steps of one size of the model on batches of one shape, on a device."""

    size: str
    precision: str
    rows: int
    lengths: tuple[int, ...]
    first_s: float  # of the first step, with what is compiled for it
    step_ms: float
    host_ms: float  # of it, until the host has handed the step over
    busy: float | None  # share of the time, as the driver says; None where it doesn't
    counted: dict[str, float]  # of one step, by the device's own counters; empty without such
    predicted_mb: int
    allocated_mb: int | None  # the most that TensorFlow took; None where nobody says


@dataclass(frozen=True)
class Copied:
    """How fast a batch's bytes get to the device, or back."""

    to_device: bool
    megabytes: float
    gb_per_s: float


CheckLine = Passed | Failed | Predicted | Timed | Copied
decode = decoder(CheckLine.__args__)
